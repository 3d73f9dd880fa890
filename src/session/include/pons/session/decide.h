#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "pons/session/state.h"

namespace pons::session {

// What is to be done now and has not been begun. Each becomes an event first: the same state never
// asks for it again.
struct Equip {};
struct AskModel {
  Purpose purpose = Purpose::kReply;
  std::int64_t attempt = 1;
};
struct BeginCall {
  std::size_t index = 0;  // in State::calls
};
// A call that will not be waited for.
struct DropCall {
  Seq call = 0;
};
// A wish that people need not decide on any more.
struct DropAccess {
  std::string request;
  std::string why;
};
struct DropQuestion {
  Seq asked = 0;
};
// The answer was cut off, or the tool is none of the session's: it is told so, nothing is run.
struct RefuseCall {
  std::size_t index = 0;
  std::string why;
};
struct Say {};
struct ReleaseSandbox {
  std::string sandbox;
};
struct EndTurn {
  EndReason reason = EndReason::kEndTurn;
};

using Command = std::variant<Equip, AskModel, BeginCall, DropCall, DropAccess, DropQuestion,
                             RefuseCall, Say, ReleaseSandbox, EndTurn>;

// Pure and total. All commands of one answer hold together, in this order. Empty: the session waits
// for the model, for tools, for a person or for its timer.
std::vector<Command> decide(const State& state);

// Why a call of the last answer that is not begun will not be run; nothing: it will.
std::optional<std::string> refusal_of(const State& state, const Call& call);

// The events that a command is written down as, all with the number behind the state's head and up.
std::vector<Event> events_of(const State& state, const Command& command);

// Decides until nothing is left to decide, and folds each decision in. The events are appended to
// `out` in their order.
void settle(State& state, std::int64_t at_ms, std::vector<StoredEvent>& out);

}  // namespace pons::session
