#pragma once

#include <string>
#include <string_view>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::e2b {

// What a caller may say of a sandbox's network: as the policy that egress keeps, which holds the
// caller's own words, too, and what is settled for the sandbox's life.
struct NetworkOptions {
  std::string policy;  // JSON text
  // JSON text of what is said about the way in: {"allowPublicTraffic"?, "maskRequestHost"?}
  std::string inward = "{}";
  bool traffic_is_public = true;
  std::string mask_host;
};

// `body`: the whole request; looks at "allow_internet_access" and at `options`, its "network" or,
// for an update, the body itself. What cannot be kept is refused, never left out. Rules may name
// secrets of `project`.
Result<NetworkOptions> read_network(const Json& body, const Json& options,
                                    std::string_view project);

// The words about the way out that a policy was made of: {"allowInternetAccess"?, "network"?}
Json words_of(const std::string& policy);

}  // namespace pons::e2b
