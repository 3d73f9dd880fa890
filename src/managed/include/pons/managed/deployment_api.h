#pragma once

#include <memory>
#include <vector>

#include "pons/base/clock.h"
#include "pons/http/router.h"
#include "pons/linux/loop.h"
#include "pons/managed/harness_choice.h"
#include "pons/managed/vault_finder.h"
#include "pons/session/sessions.h"
#include "pons/store/store.h"

namespace pons::managed {

// Deployments of the Managed Agents API: what is to become a session again and again, by a schedule
// or when somebody says so. What it is given outlives it.
class DeploymentApi {
 public:
  // `owner`: who this process is among those that share the store.
  DeploymentApi(linux::Loop& loop, store::Store& store, const Clock& clock,
                session::Sessions& sessions, std::string owner);
  ~DeploymentApi();
  DeploymentApi(const DeploymentApi&) = delete;
  DeploymentApi& operator=(const DeploymentApi&) = delete;

  // Without it there are no vaults.
  void use_vaults(VaultFinder finder);
  void use_harnesses(HarnessChoice choice);
  // /v1/deployments and /v1/deployment_runs
  std::vector<http::Route> routes();
  // Starts what is due, as long as the process runs.
  Task<> keep_going();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pons::managed
