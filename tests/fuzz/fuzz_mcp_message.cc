#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/mcp/message.h"
#include "pons/mcp/origin.h"

using namespace pons;
using namespace pons::mcp;

// Messages of strangers: what is accepted is one message, on one line, and is read again the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)is_own_origin(text, "pons.example");
  const auto message = read_message(text);
  if (!message) {
    CHECK(parse_json(write_error(message.error().id, message.error().error.code,
                                 message.error().error.message)));
    return 0;
  }
  if (const auto* request = std::get_if<Request>(&*message)) {
    CHECK(!request->method.empty() && request->id != "null");
    const auto params = parse_json(request->params);
    CHECK(params && params->is_object());
  }
  const std::string written = write_message(*message);
  CHECK(written.find('\n') == std::string::npos);
  const auto again = read_message(written, 2 * kMessageBytesMax);
  CHECK(again && write_message(*again) == written);
  return 0;
}
