#pragma once

#include "pons/managed/fields.h"
#include "routes.h"

// Resources and vaults of sessions: what a client may say of them, and what it is shown.

namespace pons::managed {

inline constexpr std::size_t kResourcesMax = 500;
inline constexpr std::size_t kVaultsMax = 50;

// The shape alone, with defaults filled in: what a deployment keeps. An empty list where there are
// none.
Result<Json> read_resources(const JsonPlace& place);
Result<Json> read_vault_ids(const JsonPlace& place);
// The kinds that may be added to a session that is there.
Result<Json> read_added_resource(const JsonPlace& place);

// For which session.
struct ResourceWish {
  std::string project;
  bool self_hosted = false;
};
// Whether all that they name is there; ids, times and what is shown of a memory store are put in. A
// refusal has the code that runs of deployments know it by.
Task<Reply<Json>> settle_resources(Objects& objects, ResourceWish wish, Json resources);
Task<Reply<void>> check_vaults(Objects& objects, std::string project, Json vault_ids);

// Of resources that have ids; null when there is none of this one.
const Json* find_resource(const Json& resources, std::string_view id);
// Null, or a resource whose place is in the way of `path`.
const Json* find_in_the_way(const Json& resources, std::string_view path);

}  // namespace pons::managed
