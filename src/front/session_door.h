#pragma once

#include "keys.h"
#include "passage.h"
#include "pons/http/client.h"
#include "role_line.h"

namespace pons::front {

// Sessions of agents, by our own paths (/x/sessions, /x/agents) and by those of the Managed Agents
// API (/v1/sessions, /v1/agents …): who calls is found out here, all else is the brain's. Refusals
// have the shape that the callers of that path know.
class SessionDoor {
 public:
  SessionDoor(linux::Loop& loop, const Keys& keys, RoleLine& brain);

  static bool is_for_session(const http::RequestHead& request);
  Task<> handle(RecordedExchange& exchange);

 private:
  linux::Loop& loop_;
  const Keys& keys_;
  http::Client brain_;
};

}  // namespace pons::front
