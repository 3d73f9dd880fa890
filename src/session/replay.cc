#include "pons/session/replay.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/session/decide.h"
#include "pons/session/fold.h"

namespace pons::session {

namespace {

std::string text_of(const Event& event) {
  return fmt::format("{} {}", type_of(event), write_body(event));
}

bool has_open_call(const State& state) {
  return std::ranges::any_of(state.calls, &Call::is_open);
}

// What only a decision writes. A call also ends, and a question also fails, by itself; between
// turns, sandboxes go because the session is archived, and during a call because they are gone.
bool is_decision(const State& state, const Event& event) {
  return std::holds_alternative<ModelAsked>(event) || std::holds_alternative<ToolCalled>(event) ||
         std::holds_alternative<Equipping>(event) || std::holds_alternative<Said>(event) ||
         std::holds_alternative<TurnEnded>(event) ||
         (std::holds_alternative<SandboxReleased>(event) && state.turn_open &&
          !has_open_call(state));
}

bool is_said(const Event& event) {
  return std::holds_alternative<UserMessage>(event) || std::holds_alternative<UserAnswer>(event) ||
         std::holds_alternative<UserDecision>(event) ||
         std::holds_alternative<UserToolResult>(event) ||
         std::holds_alternative<OutcomeDefined>(event) ||
         std::holds_alternative<Interrupted>(event);
}

// What people say in one go is decided on together.
bool are_said_together(const StoredEvent& first, const StoredEvent& second) {
  return is_said(first.event) && is_said(second.event) && first.at_ms == second.at_ms;
}

// What is found may have been written before calls said whether they ask, failures whether they are
// paid, and turns how long the session has worked.
bool is_as_decided(const Event& found, Event decided) {
  if (auto* failed = std::get_if<ModelFailed>(&decided))
    if (const auto* other = std::get_if<ModelFailed>(&found)) failed->unpaid = other->unpaid;
  if (auto* called = std::get_if<ToolCalled>(&decided))
    if (const auto* other = std::get_if<ToolCalled>(&found))
      called->asks = called->asks && other->asks;
  if (auto* ended = std::get_if<TurnEnded>(&decided))
    if (const auto* other = std::get_if<TurnEnded>(&found); other != nullptr && !other->active_ms)
      ended->active_ms = 0;
  return found == decided;
}

}  // namespace

std::vector<Divergence> replay(const std::vector<StoredEvent>& events, std::size_t max) {
  std::vector<Divergence> found;
  State state;
  std::vector<StoredEvent> due;  // decisions that must come next, in this order
  std::size_t next_due = 0;
  for (std::size_t i = 0; i < events.size() && found.size() < max; ++i) {
    const StoredEvent& stored = events[i];
    if (next_due < due.size()) {
      if (is_as_decided(stored.event, due[next_due].event)) {
        ++next_due;
      } else if (next_due == 0 && are_said_together(events[i - 1], stored)) {
        next_due = due.size();
      } else {
        // A copy may end where the original went on.
        if (!std::holds_alternative<Forked>(stored.event))
          found.push_back({stored.seq, text_of(due[next_due].event), text_of(stored.event)});
        next_due = due.size();
      }
    } else if (is_decision(state, stored.event)) {
      found.push_back({stored.seq, "", text_of(stored.event)});
    }
    fold(state, stored);
    // A binding and the end of its call are one item: nothing is decided in between.
    if (next_due < due.size() || std::holds_alternative<SandboxBound>(stored.event)) continue;
    due.clear();
    next_due = 0;
    if (decide(state).empty()) continue;
    State ahead = state;
    settle(ahead, stored.at_ms, due);
  }
  if (next_due < due.size() && found.size() < max)
    found.push_back({state.head + 1, text_of(due[next_due].event), ""});
  return found;
}

}  // namespace pons::session
