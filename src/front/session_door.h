#pragma once

#include "keys.h"
#include "passage.h"
#include "pons/http/client.h"
#include "role_line.h"

namespace pons::front {

// /x/sessions and /x/agents: who calls is found out here, all else is the brain's.
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
