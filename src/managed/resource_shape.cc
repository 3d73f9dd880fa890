#include "resource_shape.h"

#include <set>

#include <fmt/format.h>

#include "mount_path.h"
#include "pons/base/id.h"
#include "pons/files/file_store.h"
#include "pons/managed/query.h"
#include "pons/memory/path.h"
#include "repository_shape.h"

namespace pons::managed {

namespace {

constexpr std::size_t kStoresMax = 8;
constexpr int kRepositoriesMax = 16;  // the first call of a tool waits for all of them
constexpr std::size_t kIdLength = 26;
constexpr TextLimits kId{.min = 1, .max = 128};
constexpr TextLimits kPath{.min = 1, .max = 1'024};
constexpr TextLimits kInstructions{.max = 4'096};

// By which the model tells it from the others: from its name, and unlike theirs.
std::string slug_for(const std::string& name, std::set<std::string>& taken) {
  std::string slug = memory::mount_slug(name);
  if (slug.empty()) slug = "memory";
  std::string unique = slug;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}-{}", slug, i);
  return unique;
}

Refusal with_code(Refusal refusal, const char* code) {
  refusal.code = code;
  return refusal;
}

// ---- shapes

Result<Json> read_file(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "file_id", "mount_path"}));
  const std::string id = TRY(needed_text(place, "file_id", kId));
  const auto path = TRY(optional_text(place, "mount_path", kPath));
  const std::string mounted = path.value_or("/mnt/session/uploads/" + id);
  TRY_VOID(check_mount_path(place.at(path ? "mount_path" : "file_id"), mounted));
  return Json{{"type", "file"}, {"file_id", id}, {"mount_path", mounted}};
}

Result<Json> read_memory_store(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "memory_store_id", "access", "instructions"}));
  const auto access = TRY(optional_word(place, "access", {"read_write", "read_only"}));
  return Json{{"type", "memory_store"},
              {"memory_store_id", TRY(needed_text(place, "memory_store_id", kId))},
              {"access", access.value_or("read_write")},
              {"instructions", or_null(TRY(optional_text(place, "instructions", kInstructions)))}};
}

Result<Json> read_resource(const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"file", "github_repository", "memory_store"}));
  if (type == "github_repository") return read_repository(place);
  return type == "file" ? read_file(place) : read_memory_store(place);
}

// ---- what they name

Task<Reply<void>> find_file(Objects& objects, const ResourceWish& wish, const Json& resource) {
  files::FileStore files(objects.store, objects.clock);
  const auto file = co_await files.find(wish.project, resource["file_id"].get<std::string>());
  if (!file &&
      (file.error().code == ErrorCode::kNotFound || file.error().code == ErrorCode::kDenied))
    co_return with_code({404, "not_found_error", file.error().message}, "file_not_found");
  if (!file) co_return file.error();
  co_return {};
}

// What has an id, and is in a machine.
Task<Reply<void>> settle_file(Objects& objects, const ResourceWish& wish, Json& resource) {
  if (wish.self_hosted)
    co_return with_code(bad_request("a self_hosted environment takes memory stores only"),
                        "self_hosted_resources_unsupported");
  if (resource["type"] == "file") CO_TRY_VOID(co_await find_file(objects, wish, resource));
  const auto now = objects.clock.wall().time_since_epoch();
  resource["id"] = "sesrsc_" + random_text(kIdLength);
  resource["created_at"] = resource["updated_at"] =
      write_time(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  co_return {};
}

Task<Reply<void>> settle_store(Objects& objects, const ResourceWish& wish,
                               std::set<std::string>& slugs, Json& resource) {
  const auto store = co_await objects.memories.find_store(
      {.project = wish.project, .store = resource["memory_store_id"].get<std::string>()});
  if (!store && store.error().code == ErrorCode::kNotFound)
    co_return with_code(no_such("memory store"), "session_resource_not_found");
  if (!store) co_return store.error();
  if (store->archived_ms) co_return with_code(is_archived("memory store"), "memory_store_archived");
  resource["name"] = store->name;
  resource["description"] = store->description;
  resource["mount_path"] = "/mnt/memory/" + slug_for(store->name, slugs);
  co_return {};
}

}  // namespace

Result<Json> read_resources(const JsonPlace& place) {
  Json resources = Json::array();
  if (!has_value(place, "resources")) return resources;
  const JsonPlace list = place.at("resources");
  TRY_VOID(list.expect_list(kResourcesMax));
  std::set<std::string> stores;
  int repositories = 0;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    Json resource = TRY(read_resource(list.at(i)));
    if (resource["type"] == "memory_store") {
      if (!stores.insert(resource["memory_store_id"].get<std::string>()).second)
        return list.at(i).refuse("names a memory store for the second time");
      if (stores.size() > kStoresMax)
        return list.refuse(fmt::format("a session has at most {} memory stores", kStoresMax));
    } else if (find_in_the_way(resources, resource["mount_path"].get<std::string>()) != nullptr) {
      return list.at(i).refuse(fmt::format("another resource is at, below or above {}",
                                           resource["mount_path"].get<std::string>()));
    }
    if (resource["type"] == "github_repository" && ++repositories > kRepositoriesMax)
      return list.refuse(fmt::format("a session has at most {} repositories", kRepositoriesMax));
    resources.push_back(std::move(resource));
  }
  return resources;
}

Result<Json> read_added_resource(const JsonPlace& place) {
  if (TRY(type_of(place, {"file", "github_repository", "memory_store"})) != "file")
    return place.at("type").refuse("only files are added later; all else when a session is made");
  return read_resource(place);
}

Result<Json> read_vault_ids(const JsonPlace& place) {
  const auto ids = TRY(text_list(place, "vault_ids", kVaultsMax, kId));
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size())
    return place.at("vault_ids").refuse("names a vault twice");
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (!is_id_text(ids[i])) return place.at("vault_ids").at(i).refuse("is no id");
  return Json(ids);
}

Task<Reply<Json>> settle_resources(Objects& objects, ResourceWish wish, Json resources) {
  std::set<std::string> slugs;
  for (Json& resource : resources) {
    if (resource["type"] == "memory_store")
      CO_TRY_VOID(co_await settle_store(objects, wish, slugs, resource));
    else
      CO_TRY_VOID(co_await settle_file(objects, wish, resource));
  }
  co_return resources;
}

Task<Reply<void>> check_vaults(Objects& objects, std::string project, Json vault_ids) {
  for (const Json& id : vault_ids) {
    if (!objects.find_vault) co_return with_code(no_such("vault"), "vault_not_found");
    const auto found = co_await objects.find_vault(project, id.get<std::string>());
    if (!found && found.error().code == ErrorCode::kNotFound)
      co_return with_code(no_such("vault"), "vault_not_found");
    if (!found && found.error().code == ErrorCode::kConflict)
      co_return with_code(is_archived("vault"), "vault_archived");
    if (!found) co_return found.error();
  }
  co_return {};
}

const Json* find_resource(const Json& resources, std::string_view id) {
  for (const Json& resource : resources)
    if (resource.contains("id") && resource["id"] == id) return &resource;
  return nullptr;
}

const Json* find_in_the_way(const Json& resources, std::string_view path) {
  for (const Json& resource : resources)
    if (resource["type"] != "memory_store" &&
        are_in_each_others_way(resource["mount_path"].get_ref<const std::string&>(), path))
      return &resource;
  return nullptr;
}

}  // namespace pons::managed
