#pragma once

#include "routes.h"

namespace pons::managed {

// What POST /v1/sessions/{id} does; the order as it is then. Of several who change a session at
// once one does, and the others are told so before anything of theirs is in force: the session's
// log takes each number of a change once. What the log has and the order has not, because a process
// ended in between, is made good by the next one who changes it.
Task<Reply<SessionOrder>> update_session(Objects& objects, session::Sessions& sessions,
                                         SessionOrder order, const Json& body);

}  // namespace pons::managed
