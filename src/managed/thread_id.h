#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pons::managed {

// Every session is a thread: its own first one, or an agent's that works for it.
std::string write_thread_id(std::string_view session);

// The session of the agent that a thread of this session may be: whether there is one is in the
// store. The session itself when it is its first thread; nothing when it is no thread's id.
std::optional<std::string> parse_thread_id(std::string_view session, std::string_view text);

}  // namespace pons::managed
