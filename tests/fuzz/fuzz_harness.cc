#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"
#include "pons/harness/conversation.h"

using namespace pons;
using namespace pons::harness;

namespace {

// What Conversation promises of a harness, whatever it writes.
struct Watch {
  bool in_turn = false;
  std::set<std::string> calls;
  std::vector<std::string> permissions, requests;

  void operator()(const Ready& event) { CHECK(!event.session.empty()); }
  void operator()(const ToolsOffered&) {}
  void operator()(const TextDelta& event) { CHECK(in_turn && !event.text.empty()); }
  void operator()(const ThinkingDelta& event) { CHECK(in_turn && !event.text.empty()); }
  void operator()(const Text& event) { CHECK(in_turn && !event.text.empty()); }
  void operator()(const ToolCall& event) {
    CHECK(in_turn && calls.insert(event.id).second && parse_json(event.input));
  }
  void operator()(const ToolResult& event) { CHECK(in_turn && calls.erase(event.id) == 1); }
  void operator()(const ToolRequest& event) {
    CHECK(in_turn && parse_json(event.input));
    requests.push_back(event.id);
  }
  void operator()(const PermissionRequest& event) {
    CHECK(in_turn && parse_json(event.input));
    permissions.push_back(event.id);
  }
  void operator()(const Usage& event) { CHECK(in_turn && event.input >= 0 && event.output >= 0); }
  void operator()(const Failure&) { CHECK(in_turn); }
  void operator()(const Idle&) {
    CHECK(in_turn && calls.empty());
    in_turn = false;
  }
};

}  // namespace

// The first byte chooses the protocol and what we do besides; the rest is what the harness writes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool again = (choice & 4) != 0;
  Conversation conversation(create_adapter(
      static_cast<Protocol>(choice & 3),
      {.model = "m",
       .session = again ? "s" : "",
       .tools = {{.name = "t", .description = "d", .input_schema = R"({"type":"object"})"}},
       .servers = {{.name = "n", .url = "http://n", .bearer = "b"}}}));
  Watch watch;
  const auto hear = [&](const Output& out) {
    for (const std::string& line : out.lines)
      CHECK(line.find('\n') == std::string::npos && parse_json(line));
    for (const Event& event : out.events) std::visit(watch, event);
  };
  const auto say = [&] {
    if (watch.in_turn || conversation.is_broken()) return;
    watch.in_turn = true;
    hear(conversation.send("hello").value());
  };
  hear(conversation.start());
  say();
  // In two pieces, with something of ours between them.
  const std::size_t middle = text.size() / 2;
  hear(conversation.feed(text.substr(0, middle)));
  for (const std::string& id : std::exchange(watch.permissions, {}))
    hear(conversation.decide(id, {.allowed = (choice & 8) != 0, .message = "no"}));
  for (const std::string& id : std::exchange(watch.requests, {}))
    hear(conversation.answer(id, {.text = "it", .is_error = (choice & 8) != 0}));
  if ((choice & 16) != 0) hear(conversation.interrupt());
  say();
  hear(conversation.feed(text.substr(middle)));
  hear(conversation.ended("it is gone"));
  CHECK(!watch.in_turn);
  return 0;
}
