#pragma once

#include <memory>
#include <vector>

#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/session/sessions.h"
#include "pons/store/store.h"

namespace pons::managed {

struct Objects;

// The Managed Agents API on top of a store and of sessions, for clients that the front has let in.
// What it is given outlives it.
class ManagedApi {
 public:
  ManagedApi(store::Store& store, const Clock& clock, session::Sessions& sessions);
  ~ManagedApi();
  ManagedApi(const ManagedApi&) = delete;
  ManagedApi& operator=(const ManagedApi&) = delete;

  // All below /v1.
  std::vector<http::Route> routes();

 private:
  std::unique_ptr<Objects> objects_;
  session::Sessions& sessions_;
};

}  // namespace pons::managed
