#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/task.h"
#include "pons/http/router.h"
#include "pons/vault/project_vaults.h"

namespace pons::vault {

// What a server said to a request with a credential.
struct ProbeAnswer {
  int status = 0;
  std::string content_type;
  std::string body;  // the beginning of it, without secrets
  bool is_cut = false;
};
// Asks the credential's MCP server to greet; nothing when it could not be reached.
using Probe =
    std::function<Task<std::optional<ProbeAnswer>>(VaultPlace place, std::string server_url)>;

// /v1/vaults and all below it, as the SDKs know them; for callers that the front has let in. No
// answer ever holds a secret. And for the brain, which sees no more than that:
//   GET /project-vaults/{project}/{id}   200, or why a session cannot have it: 404, 409 (archived)
// `vaults` outlives the routes.
std::vector<http::Route> vault_api(ProjectVaults& vaults, const Clock& clock, Probe probe);

}  // namespace pons::vault
