// The bytes are a message to a cell. Holds: nothing is read past the end, and what is accepted has
// all its strings inside the message and every field within its bounds.

#include <cstdint>
#include <cstring>
#include <string>

#include "pons/base/check.h"
#include "request.h"

namespace {

using namespace pons::cell;

void check_list(const StringList& list, const std::string& message) {
  const char* at = list.first;
  for (std::uint32_t i = 0; i < list.count; ++i) {
    CHECK(at >= message.data() && at < message.data() + message.size());
    at += std::strlen(at) + 1;
  }
  CHECK(list.count == 0 || at <= message.data() + message.size());
}

void check(const std::string& message) {
  Request request;
  if (!parse_request(message.data(), message.size(), &request)) return;
  CHECK(message.size() <= kMessageBytesMax);
  check_list(request.arguments, message);
  check_list(request.environment, message);
  if (request.op == Op::kStart) {
    CHECK(request.arguments.count >= 1 && request.arguments.count <= kArgumentsMax);
    CHECK(std::strlen(request.user) < kUserNameBytes);
  }
  if (request.op == Op::kSignal) CHECK(request.signal.number >= 1 && request.signal.number <= 64);
  CHECK(request.input_size <= message.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string message(reinterpret_cast<const char*>(data), size);
  check(message);
  // The same behind a right header, which a fuzzer seldom keeps.
  if (message.size() < 2) return 0;
  RequestHeader header = {
      .magic = kMagic, .version = kVersion, .op = Op(data[0] % 12), .id = data[1], .job = "job"};
  message.replace(0, 2, reinterpret_cast<const char*>(&header), sizeof header);
  check(message);
  return 0;
}
