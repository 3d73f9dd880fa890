#pragma once

#include "keys.h"
#include "passage.h"
#include "pons/http/client.h"
#include "role_line.h"

namespace pons::front {

// /v1/agents, /v1/sessions and the other paths of the Managed Agents API: who calls is found out
// here, all else is the brain's. Refusals have the shape that the SDKs of that API know.
class ManagedDoor {
 public:
  ManagedDoor(linux::Loop& loop, const Keys& keys, RoleLine& brain);

  static bool is_for_managed(const http::RequestHead& request);
  Task<> handle(RecordedExchange& exchange);

 private:
  linux::Loop& loop_;
  const Keys& keys_;
  http::Client brain_;
};

}  // namespace pons::front
