#pragma once

#include "pons/managed/fields.h"
#include "routes.h"

// Resources of sessions: what a client may say of them, and what it is shown.

namespace pons::managed {

inline constexpr std::size_t kResourcesMax = 500;
inline constexpr std::size_t kVaultsMax = 50;

// The shape alone, with defaults filled in. An empty list when there are none.
Result<Json> read_resources(const JsonPlace& place);
Result<Json> read_resource(const JsonPlace& place);
Result<Json> read_vault_ids(const JsonPlace& place);

// Whether all that they name is there, for a session of that project; ids, times and what is shown
// of a memory store are put in. A refusal has the code that deployments know it by.
struct ResourceWish {
  std::string project;
  bool self_hosted = false;
  std::int64_t now_ms = 0;
};
Task<Reply<Json>> settle_resources(Objects& objects, ResourceWish wish, Json resources);
Task<Reply<void>> check_vaults(Objects& objects, std::string project, Json vault_ids);

// A resource that has an id; null when there is none of that id.
Json* find_resource(Json& resources, std::string_view id);

}  // namespace pons::managed
