#pragma once

#include <deque>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/models/message.h"
#include "pons/models/protocol.h"

// A conversation of another protocol in the shape that Anthropic accepts:
//
// - Neighbours with the same role are one turn, the user speaks first ("Begin." where nobody asked
//   anything), and no text is blank.
// - The leading system and developer messages are the system prompt. A later one keeps its place as
//   a text of the user's turn within <system> … </system>: the protocol's own messages of the
//   system are not known to every model and provider.
// - Thinking comes first in its turn; only Anthropic's own is kept.
// - The results of an assistant's tool calls stand first in the turn after it, in the order of the
//   calls, wherever they were given. A call without a result and a result without a call are
//   refused, as OpenAI's protocols do: guessing what a tool said could make the model act on it.
// - Ids of tool calls that Anthropic does not accept, or that occur twice, are replaced.

namespace pons::models::messages {

struct Turn {
  Role role = Role::kUser;
  std::vector<const Part*> parts;
  std::vector<std::size_t> calls = {};  // of the assistant: which of the conversation's
};

// Moves only: the parts may be those it made itself.
struct Turns {
  Turns() = default;
  Turns(Turns&&) = default;
  Turns& operator=(Turns&&) = default;

  std::vector<const Part*> system;
  std::vector<Turn> turns;
  std::deque<Part> made;  // parts that the request does not have in this form
};

// The parts stay those of the request, which must live as long.
Result<Turns> turns_of(const Request& request, Omitted& omitted);

// The part itself, or one that Anthropic can read in its place, kept in `made`. What cannot be made
// readable is refused.
Result<const Part*> fit_media(const Part& part, std::deque<Part>& made, Omitted& omitted);

Error unwritable(std::string message);
void omit(Omitted& omitted, std::string_view name);  // once

}  // namespace pons::models::messages
