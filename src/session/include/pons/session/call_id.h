#pragma once

#include <string>
#include <string_view>

#include "pons/session/event.h"

namespace pons::session {

// Under which a call is known to whoever does it: the same however often it is asked for, so that
// it is done once. A test program replaces this function to prove that the checker of the
// durability test notices.
std::string call_id_of(std::string_view session, Seq call);

// The session of the agent that does that call.
std::string child_session_of(std::string_view session, Seq call);

}  // namespace pons::session
