// The bytes are what the other side of the spawner's channel sends. Holds: nothing is read past the
// end, what is accepted has exactly the fields that may pass, and writing it gives the same bytes.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/roles/attempts.h"
#include "pons/spawner/protocol.h"

namespace {

using namespace pons::spawner;

void check_request(std::string_view bytes) {
  const auto request = parse_request(bytes);
  if (!request) return;
  CHECK(bytes_of(*request) == bytes);
  CHECK(request->magic == kMagic && request->version == kVersion);
  CHECK(request->kind >= RequestKind::kIdentify && request->kind <= RequestKind::kFindView);
  CHECK(request->create.template_layer_count <= kTemplateLayersMax);
  CHECK(request->view.layer_count <= kOwnLayersMax);
}

void check_reply(std::string_view bytes) {
  const auto reply = parse_reply(bytes);
  if (!reply) return;
  CHECK(bytes_of(*reply) == bytes);
  CHECK(reply->magic == kMagic && reply->status <= Status::kNoSuchSandbox);
  CHECK(name_of(reply->step) != nullptr);
  // What the warden does with it.
  const pons::roles::Attempt attempt{"name", "promise", nullptr};
  const auto result = pons::roles::judge(attempt, static_cast<int>(reply->os_error));
  CHECK(result.holds == (reply->os_error != 0) && !result.answer().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of its own size, so that the sanitizer sees a read past the end.
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check_request(bytes);
  check_reply(bytes);
  // The same behind a right magic, which a fuzzer seldom keeps.
  const std::uint32_t magic = kMagic;
  const std::string_view right(reinterpret_cast<const char*>(&magic), sizeof magic);
  bytes.replace(0, std::min(bytes.size(), right.size()), right);
  check_request(bytes);
  check_reply(bytes);
  return 0;
}
