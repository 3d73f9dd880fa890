#include "resource_shape.h"

#include <set>

#include <fmt/format.h>

#include "pons/memory/path.h"

namespace pons::managed {

namespace {

constexpr std::size_t kResourcesMax = 500;
constexpr std::size_t kStoresMax = 8;
constexpr TextLimits kInstructions{.max = 4'096};

// By which the model tells it from the others: from its name, and unlike theirs.
std::string slug_for(const std::string& name, std::set<std::string>& taken) {
  std::string slug = memory::mount_slug(name);
  if (slug.empty()) slug = "memory";
  std::string unique = slug;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}-{}", slug, i);
  return unique;
}

Task<Reply<Json>> read_memory_store(Objects& objects, const std::string& project,
                                    const JsonPlace& place, std::set<std::string>& slugs) {
  CO_TRY_VOID(place.expect_object({"type", "memory_store_id", "access", "instructions"}));
  CO_TRY(const auto id, needed_text(place, "memory_store_id", {.min = 1, .max = 128}));
  CO_TRY(const auto access, optional_word(place, "access", {"read_write", "read_only"}));
  CO_TRY(const auto instructions, optional_text(place, "instructions", kInstructions));
  CO_TRY(const auto store, co_await objects.memories.find_store({.project = project, .store = id}));
  if (store.archived_ms) co_return is_archived("memory store");
  co_return Json{{"type", "memory_store"},
                 {"memory_store_id", id},
                 {"access", access.value_or("read_write")},
                 {"instructions", or_null(instructions)},
                 {"name", store.name},
                 {"description", store.description},
                 {"mount_path", "/mnt/memory/" + slug_for(store.name, slugs)}};
}

}  // namespace

Task<Reply<Json>> read_resources(Objects& objects, const std::string& project,
                                 const JsonPlace& place) {
  Json resources = Json::array();
  if (!has_value(place, "resources")) co_return resources;
  const JsonPlace list = place.at("resources");
  CO_TRY_VOID(list.expect_list(kResourcesMax));
  std::set<std::string> stores;
  std::set<std::string> slugs;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    CO_TRY_VOID(type_of(list.at(i), {"memory_store"}));
    CO_TRY(auto resource, co_await read_memory_store(objects, project, list.at(i), slugs));
    if (!stores.insert(resource["memory_store_id"].get<std::string>()).second)
      co_return list.at(i).refuse("names a memory store for the second time");
    if (stores.size() > kStoresMax)
      co_return list.refuse(fmt::format("a session has at most {} memory stores", kStoresMax));
    resources.push_back(std::move(resource));
  }
  co_return resources;
}

}  // namespace pons::managed
