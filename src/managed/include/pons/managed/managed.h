#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/linux/loop.h"
#include "pons/managed/harness_choice.h"
#include "pons/managed/session_files.h"
#include "pons/managed/session_tokens.h"
#include "pons/managed/store_grant.h"
#include "pons/managed/vault_finder.h"
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

  // Without it there are no vaults.
  void use_vaults(VaultFinder finder);
  // Called when environments may want other packages than before.
  void tell_of_packages(std::function<void()> tell);
  // Without it agents are driven by Pons itself.
  void use_harnesses(HarnessChoice choice);
  // Whether the session is one of this API.
  static bool is_session(std::string_view id);
  Task<Result<SessionFiles>> files_of(std::string project, std::string session);
  // By what the session was made with.
  Task<Reply<StoreGrant>> grant_of(std::string project, std::string session, std::string store);
  // All below /v1.
  std::vector<http::Route> routes();
  // What is left of it, behind all other routes: refused in words that the SDKs understand.
  static std::vector<http::Route> unknown_routes();
  // Tokens of workers are known at the door, and not for longer than they are good. Runs as long as
  // the process.
  Task<> keep_going();
  // The same now: other processes have made or ended some.
  Task<Result<void>> look_at_tokens() { return tokens_.keep_up(); }

 private:
  linux::Loop& loop_;
  std::unique_ptr<Objects> objects_;
  session::Sessions& sessions_;
  SessionTokens tokens_;
};

}  // namespace pons::managed
