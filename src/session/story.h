#pragma once

#include <string>
#include <vector>

#include "pons/session/decide.h"
#include "pons/session/fold.h"

// For tests: a session's log as it comes about, without a world around it.

namespace pons::session {

struct Story {
  State state;
  std::vector<StoredEvent> events;
  std::int64_t now_ms = 1'000;

  explicit Story(AgentSpec agent = {.model = "m"}) { add(Created{.agent = std::move(agent)}); }

  // What happens, and what the session decides because of it. The number of the former.
  Seq add(Event event) {
    events.push_back({.seq = state.head + 1, .at_ms = now_ms, .event = std::move(event)});
    fold(state, events.back());
    const Seq seq = state.head;
    settle(state, now_ms, events);
    return seq;
  }
  Seq say(const std::string& text, std::string dedupe = {}) {
    return add(UserMessage{.content = R"([{"type":"text","text":")" + text + "\"}]",
                           .dedupe = std::move(dedupe)});
  }
  Seq answer(std::string content, std::string stop = "end_turn", Usage usage = {}) {
    return add(ModelAnswered{.asked = state.asked ? state.asked->seq : 0,
                             .content = std::move(content),
                             .stop_reason = std::move(stop),
                             .usage = usage});
  }
  // Calls of these tools, with these arguments each.
  Seq call(const std::vector<std::pair<std::string, std::string>>& calls,
           std::string stop = "tool_use") {
    std::string content = "[";
    for (std::size_t i = 0; i < calls.size(); ++i)
      content += (i == 0 ? "" : ",") + std::string(R"({"type":"tool_use","id":"t)") +
                 std::to_string(state.head) + "_" + std::to_string(i) + R"(","name":")" +
                 calls[i].first + R"(","input":)" + calls[i].second + "}";
    return answer(content + "]", std::move(stop));
  }
  Seq end_call(std::size_t index, std::string text = "ok") {
    return add(ToolEnded{.call = state.calls.at(index).seq, .text = std::move(text)});
  }
  Seq bind(std::size_t index, std::string sandbox, bool kept = false) {
    events.push_back({.seq = state.head + 1,
                      .at_ms = now_ms,
                      .event = SandboxBound{.call = state.calls.at(index).seq,
                                            .sandbox = std::move(sandbox),
                                            .sandbox_template = "host",
                                            .kept = kept}});
    fold(state, events.back());
    return end_call(index, "sandbox_id: x");
  }
  Seq fail(Trouble trouble, std::int64_t wait_ms = 10) {
    return add(ModelFailed{.asked = state.asked ? state.asked->seq : 0,
                           .trouble = trouble,
                           .message = "no",
                           .wait_ms = wait_ms});
  }

  // The types of all events behind that one.
  std::vector<std::string> types_after(Seq seq) const {
    std::vector<std::string> types;
    for (const StoredEvent& stored : events)
      if (stored.seq > seq) types.emplace_back(type_of(stored.event));
    return types;
  }
  template <class T>
  std::vector<T> all_of() const {
    std::vector<T> found;
    for (const StoredEvent& stored : events)
      if (const auto* event = std::get_if<T>(&stored.event)) found.push_back(*event);
    return found;
  }
};

inline constexpr const char* kHello = R"([{"type":"text","text":"hello"}])";
inline constexpr const char* kTask = R"({"task_description":"work"})";
inline constexpr const char* kRun = R"({"command":"ls"})";

}  // namespace pons::session
