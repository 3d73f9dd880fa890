#pragma once

#include <memory>
#include <vector>

#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/linux/loop.h"
#include "pons/managed/session_tokens.h"
#include "pons/session/sessions.h"
#include "pons/store/store.h"

namespace pons::managed {

struct Objects;

// The Managed Agents API on top of a store and of sessions, for clients that the front has let in.
// What it is given outlives it.
class ManagedApi {
 public:
  ManagedApi(linux::Loop& loop, store::Store& store, const Clock& clock,
             session::Sessions& sessions, TokenDoor& door);
  ~ManagedApi();
  ManagedApi(const ManagedApi&) = delete;
  ManagedApi& operator=(const ManagedApi&) = delete;

  // All below /v1.
  std::vector<http::Route> routes();
  // Tokens of workers are known at the door, and not for longer than they are good. Runs as long as
  // the process.
  Task<> keep_going();

 private:
  linux::Loop& loop_;
  std::unique_ptr<Objects> objects_;
  session::Sessions& sessions_;
  SessionTokens tokens_;
};

}  // namespace pons::managed
