#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pons/session/sessions.h"

// Bodies of requests about sessions: each field has a limit, and what is not known is refused.

namespace pons::brain {

inline constexpr std::size_t kMessageBytesMax = 4 << 20;

using Agents = std::map<std::string, session::AgentSpec>;

// {"agent", "model", "system", "title", "id", "message": TEXT or a list of blocks, "dedupe",
//  "budget_tokens"}; all may be missing. What has a dedupe key and no id has one that follows from
// the key.
Result<session::NewSession> parse_new_session(std::string_view body, const std::string& project,
                                              const Agents& agents);

// {"events": [{"type": "user.message", "text" or "content", "dedupe"},
//             {"type": "user.answer", "call", "text"}, {"type": "user.interrupt"}]}
Result<std::vector<session::Event>> parse_inputs(std::string_view body);

// {"at": SEQ}, or nothing at all.
Result<session::Seq> parse_fork(std::string_view body);

}  // namespace pons::brain
