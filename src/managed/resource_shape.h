#pragma once

#include "pons/managed/fields.h"
#include "routes.h"

namespace pons::managed {

// `resources` of a new session, as the API shows them: what each of them is was looked up.
Task<Reply<Json>> read_resources(Objects& objects, const std::string& project,
                                 const JsonPlace& place);

}  // namespace pons::managed
