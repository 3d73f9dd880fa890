#pragma once

#include <vector>

#include "pons/http/router.h"
#include "pons/vault/project_secrets.h"
#include "pons/vault/routes.h"

namespace pons::vault {

// The secrets of projects, to whoever has found out whose caller asks. No answer ever holds a
// value.
//   POST /project-secrets  {"op", "project", …} -> {"secrets": […]}
//     create  "name", "value", "metadata"?      update  "secret", "value", "metadata"?
//     find    "secret"                          remove  "secret"         list
// A secret is named by its id or its name. `secrets` outlives the routes.
std::vector<http::Route> secret_routes(ProjectSecrets& secrets, Refusal refuse);

}  // namespace pons::vault
