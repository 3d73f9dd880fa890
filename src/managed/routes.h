#pragma once

#include <functional>
#include <vector>

#include "pons/managed/caller.h"
#include "pons/managed/documents.h"
#include "pons/managed/harness_choice.h"
#include "pons/managed/package_uses.h"
#include "pons/managed/session_tokens.h"
#include "pons/managed/vault_finder.h"
#include "pons/memory/memory_stores.h"
#include "pons/session/sessions.h"
#include "session_orders.h"

namespace pons::managed {

// The tables of the API's own objects.
struct Objects {
  store::Store& store;
  const Clock& clock;
  Documents agents{store, clock, "agents", "agent", "agent"};
  Documents environments{store, clock, "environments", "environment", "env"};
  SessionOrders orders{store, clock};
  memory::MemoryStores memories{store, clock, {}};  // to look things up: it writes nothing
  PackageUses packages{store, clock};
  VaultFinder find_vault = {};             // none: there are no vaults
  std::function<void()> on_packages = {};  // environments may want others now
  HarnessChoice harnesses = {};
};

// 404 when there is no such version of it.
Task<Reply<Document>> find_version(Objects& objects, const Document& agent, std::int64_t version);

std::vector<http::Route> agent_routes(Objects& objects);
std::vector<http::Route> environment_routes(Objects& objects);
std::vector<http::Route> session_routes(Objects& objects, session::Sessions& sessions);
std::vector<http::Route> resource_routes(Objects& objects, session::Sessions& sessions);
std::vector<http::Route> event_routes(Objects& objects, session::Sessions& sessions);
// The queue of environments whose tools are run by somebody else.
std::vector<http::Route> work_routes(Objects& objects, SessionTokens& tokens);
std::vector<http::Route> thread_routes(Objects& objects, session::Sessions& sessions);

}  // namespace pons::managed
