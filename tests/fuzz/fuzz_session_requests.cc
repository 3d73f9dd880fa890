#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/id.h"
#include "pons/base/json.h"
#include "session_requests.h"

using namespace pons;
using namespace pons::brain;

namespace {

void check_message(const session::UserMessage& message) {
  CHECK(message.content.size() <= kMessageBytesMax);
  CHECK(message.dedupe.find('\0') == std::string::npos);
  const auto content = parse_json(message.content);
  CHECK(content && content->is_array() && !content->empty());
  for (const Json& block : *content) CHECK(block.is_object() && block.contains("type"));
}

}  // namespace

// Bodies of requests about sessions: what is accepted can be stored, and sent to a model.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Agents kAgents = {{"default", {.name = "default", .model = "m"}}};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  if (const auto wish = parse_new_session(body, "p", kAgents)) {
    CHECK(wish->id.empty() || is_id_text(wish->id));
    CHECK(wish->title.find('\0') == std::string::npos && !wish->agent.model.empty());
    if (wish->message) check_message(*wish->message);
  }
  if (const auto inputs = parse_inputs(body)) {
    CHECK(!inputs->empty());
    for (const session::Event& input : *inputs) {
      if (const auto* message = std::get_if<session::UserMessage>(&input)) check_message(*message);
      if (const auto* answer = std::get_if<session::UserAnswer>(&input))
        CHECK(answer->call > 0 && !answer->text.empty());
    }
  }
  if (const auto at = parse_fork(body)) CHECK(*at >= 0);
  return 0;
}
