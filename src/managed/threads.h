#pragma once

#include "event_input.h"
#include "pons/managed/reply.h"
#include "pons/session/sessions.h"
#include "session_orders.h"

namespace pons::managed {

// The agents that work, or have worked, for the session; oldest first.
Task<Reply<std::vector<session::Summary>>> list_children(session::Sessions& sessions,
                                                         const SessionOrder& order);

// The logs that a client of the session may speak to.
Task<Reply<Recipients>> recipients_of(session::Sessions& sessions, const SessionOrder& order);

}  // namespace pons::managed
