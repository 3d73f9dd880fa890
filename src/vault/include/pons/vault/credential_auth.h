#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/vault/binding.h"

namespace pons::vault {

// How a credential of the API is used, as its "auth" says: which name it has in its vault, where it
// may stand in requests, and which MCP server it is for.
struct CredentialUse {
  std::string name;  // empty: of the kind that is for a server
  std::vector<Binding> bindings;
  std::string server;  // canonical URL; empty: it is for sandboxes
};
// kInvalid with a reason when it could not be kept safe.
Result<CredentialUse> use_of(const Json& auth);

// "https://host:port/path": with its port, without a slash at the end and without a query.
Result<std::string> canonical_server(std::string_view url);

}  // namespace pons::vault
