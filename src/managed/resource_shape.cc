#include "resource_shape.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::managed {

namespace {

constexpr TextLimits kId{.min = 1, .max = 128};
constexpr TextLimits kPath{.min = 2, .max = 1'024};
constexpr TextLimits kInstructions{.max = 4'096};
constexpr std::size_t kIdLength = 26;

// One place and no other, whoever reads it; and none of the kernel's.
Result<void> check_path(const JsonPlace& place, std::string_view path) {
  const auto segments = split(path.substr(1), '/');
  const bool is_plain =
      path.front() == '/' &&
      std::ranges::none_of(segments,
                           [](std::string_view segment) {
                             return segment.empty() || segment == "." || segment == "..";
                           }) &&
      std::ranges::none_of(path, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (!is_plain) return place.refuse("is a path such as /mnt/data/a.csv, without . and ..");
  for (const std::string_view kept : {"proc", "sys", "dev"})
    if (segments.front() == kept) return place.refuse(fmt::format("/{} is the kernel's", kept));
  return {};
}

Result<Json> read_file(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "file_id", "mount_path"}));
  Json file = {{"type", "file"}, {"file_id", TRY(needed_text(place, "file_id", kId))}};
  const auto path = TRY(optional_text(place, "mount_path", kPath));
  if (path) TRY_VOID(check_path(place.at("mount_path"), *path));
  file["mount_path"] = path.value_or(
      fmt::format("/mnt/session/uploads/{}", file["file_id"].get_ref<const std::string&>()));
  if (!path) TRY_VOID(check_path(place.at("file_id"), file["mount_path"].get<std::string>()));
  return file;
}

Result<Json> read_store(const JsonPlace& place) {
  TRY_VOID(place.expect_object({"type", "memory_store_id", "access", "instructions"}));
  return Json{
      {"type", "memory_store"},
      {"memory_store_id", TRY(needed_text(place, "memory_store_id", kId))},
      {"access",
       TRY(optional_word(place, "access", {"read_write", "read_only"})).value_or("read_write")},
      {"instructions", or_null(TRY(optional_text(place, "instructions", kInstructions)))}};
}

Refusal with_code(Refusal refusal, const char* code) {
  refusal.code = code;
  return refusal;
}

// "Team notes!" is mounted at /mnt/memory/team-notes.
std::string slug_of(std::string_view name) {
  std::string slug;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_word)
      slug += c;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug.empty() ? "store" : slug;
}

Task<Reply<void>> settle_file(Objects& objects, const ResourceWish& wish, Json& resource) {
  const auto file = co_await objects.files.find(wish.project, resource["file_id"]);
  if (!file &&
      (file.error().code == ErrorCode::kNotFound || file.error().code == ErrorCode::kDenied))
    co_return with_code({404, "not_found_error", file.error().message}, "file_not_found");
  if (!file) co_return file.error();
  resource["id"] = "sesrsc_" + random_text(kIdLength);
  resource["created_at"] = resource["updated_at"] = write_time(wish.now_ms);
  co_return {};
}

Task<Reply<void>> settle_store(Objects& objects, const ResourceWish& wish, Json& resource) {
  const auto store = co_await objects.memories.find_store(
      {.project = wish.project, .store = resource["memory_store_id"]});
  if (!store && store.error().code == ErrorCode::kNotFound)
    co_return with_code(no_such("memory store"), "memory_store_not_found");
  if (!store) co_return store.error();
  if (store->archived_ms) co_return with_code(is_archived("memory store"), "memory_store_archived");
  resource["name"] = store->name;
  resource["description"] = store->description;
  resource["mount_path"] = "/mnt/memory/" + slug_of(store->name);
  co_return {};
}

}  // namespace

Result<Json> read_resource(const JsonPlace& place) {
  const std::string type = TRY(type_of(place, {"file", "github_repository", "memory_store"}));
  if (type == "github_repository")
    return place.at("type").refuse("repositories are not supported yet: clone them with bash");
  return type == "file" ? read_file(place) : read_store(place);
}

Result<Json> read_resources(const JsonPlace& place) {
  Json resources = Json::array();
  if (!has_value(place, "resources")) return resources;
  const JsonPlace list = place.at("resources");
  TRY_VOID(list.expect_list(kResourcesMax));
  for (std::size_t i = 0; i < list.value.size(); ++i)
    resources.push_back(TRY(read_resource(list.at(i))));
  return resources;
}

Result<Json> read_vault_ids(const JsonPlace& place) {
  if (!has_value(place, "vault_ids")) return Json::array();
  auto ids = TRY(text_list(place, "vault_ids", kVaultsMax, kId));
  if (std::set<std::string>(ids.begin(), ids.end()).size() != ids.size())
    return place.at("vault_ids").refuse("names a vault twice");
  return Json(ids);
}

Task<Reply<Json>> settle_resources(Objects& objects, ResourceWish wish, Json resources) {
  std::set<std::string> places;
  for (Json& resource : resources) {
    const bool is_file = resource["type"] == "file";
    if (is_file && wish.self_hosted)
      co_return with_code(bad_request("a self_hosted environment takes memory stores only"),
                          "self_hosted_resources_unsupported");
    if (is_file)
      CO_TRY_VOID(co_await settle_file(objects, wish, resource));
    else
      CO_TRY_VOID(co_await settle_store(objects, wish, resource));
    if (!places.insert(resource["mount_path"].get<std::string>()).second)
      co_return bad_request(fmt::format("two resources have the place {}",
                                        resource["mount_path"].get<std::string>()));
  }
  co_return resources;
}

Task<Reply<void>> check_vaults(Objects& objects, std::string project, Json vault_ids) {
  for (const Json& id : vault_ids) {
    if (!objects.find_vault) co_return bad_request("there are no vaults here");
    const auto found = co_await objects.find_vault(project, id.get<std::string>());
    if (!found && found.error().code == ErrorCode::kNotFound)
      co_return with_code(no_such("vault"), "vault_not_found");
    if (!found && found.error().code == ErrorCode::kConflict)
      co_return with_code(is_archived("vault"), "vault_archived");
    if (!found) co_return found.error();
  }
  co_return {};
}

Json* find_resource(Json& resources, std::string_view id) {
  for (Json& resource : resources)
    if (resource.contains("id") && resource["id"] == id) return &resource;
  return nullptr;
}

}  // namespace pons::managed
