#include "agent_stores.h"

#include <optional>

#include "pons/memory/path.h"

namespace pons::brain {

namespace {

// Of several of one name, the oldest: it is the one that was there first.
Task<Result<std::optional<memory::MemoryStore>>> find_named(memory::MemoryStores& stores,
                                                            std::string project, std::string name) {
  std::optional<memory::MemoryStore> found;
  memory::StoreQuery query{.limit = memory::kBasicRowsMax};
  do {
    CO_TRY(auto page, co_await stores.list_stores(project, query));
    for (memory::MemoryStore& store : page.entries)
      if (store.name == name) found = std::move(store);
    query.page = std::move(page.next);
  } while (!query.page.empty());
  co_return found;
}

}  // namespace

Task<Result<void>> find_memory(memory::MemoryStores* stores, const std::string& project,
                               std::vector<session::MemoryGrant>& grants) {
  if (stores == nullptr) grants.clear();
  for (session::MemoryGrant& grant : grants) {
    CO_TRY(auto found, co_await find_named(*stores, project, grant.name));
    if (!found) {
      CO_TRY(found, co_await stores->create_store(project, {.name = grant.name}));
    }
    grant.store = found->id;
    grant.description = found->description;
    if (std::string slug = memory::mount_slug(grant.name); !slug.empty())
      grant.name = std::move(slug);
  }
  co_return {};
}

}  // namespace pons::brain
