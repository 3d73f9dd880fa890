#pragma once

#include <string>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::e2b {

// What a caller may say of a sandbox's network, as the policy that egress keeps and as the words
// that the caller reads back.
struct NetworkOptions {
  std::string policy;  // JSON text
  std::string shown;   // JSON text: {"allowInternetAccess"?, "network"?}
  bool traffic_is_public = true;
  std::string mask_host;
};

// `body`: the whole request; looks at "allow_internet_access" and at `options`, its "network" or,
// for an update, the body itself. What cannot be kept is refused, never left out.
Result<NetworkOptions> read_network(const Json& body, const Json& options);

}  // namespace pons::e2b
