#pragma once

#include "admission.h"
#include "passage.h"
#include "pons/http/client.h"
#include "role_line.h"

namespace pons::front {

// Sessions of agents, by our own paths (/x/sessions, /x/agents; and /x/project, /x/api-keys for
// those who manage a project) and by those of the Managed Agents API (/v1/sessions, /v1/agents …):
// who calls, and whether the key opens that, is found out here, all else is the brain's; of vaults,
// egress'. Refusals have the shape that the callers of that path know.
class SessionDoor {
 public:
  SessionDoor(linux::Loop& loop, Admission& admission, RoleLine& brain, http::Client& egress);

  static bool is_for_session(const http::RequestHead& request);
  Task<> handle(RecordedExchange& exchange);

 private:
  linux::Loop& loop_;
  Admission& admission_;
  http::Client brain_;
  http::Client& egress_;
};

}  // namespace pons::front
