#pragma once

#include "routes.h"

namespace pons::managed {

// The session as the API shows it, with what became of its outcomes.
Task<Reply<Json>> present_session(Objects& objects, const SessionOrder& order,
                                  const session::Summary& summary);

// Outcomes of a session's log, of which only those events are needed that tell of them.
Json show_outcomes(const std::vector<session::StoredEvent>& events);

}  // namespace pons::managed
