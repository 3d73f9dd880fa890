#include "memory_shape.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/managed/fields.h"
#include "pons/memory/memory_stores.h"
#include "pons/memory/path.h"

namespace pons::managed {

namespace {

using memory::Actor;

constexpr TextLimits kName{.min = 1, .max = 255};
constexpr TextLimits kDescription{.max = 1024};
constexpr TextLimits kPath{.min = 1, .max = memory::kPathBytesMax};
constexpr TextLimits kContent{.max = memory::kContentBytesMax};
constexpr std::size_t kMetadataMax = 64;  // of a patch, which may delete as many as it adds

Result<memory::MetadataPatch> read_patch(const JsonPlace& place) {
  memory::MetadataPatch patch;
  if (!has_value(place, "metadata")) return patch;
  const JsonPlace metadata = place.at("metadata");
  if (!metadata.value.is_object()) return metadata.refuse("must be an object");
  if (metadata.value.size() > kMetadataMax) return metadata.refuse("has too many keys");
  for (const auto& [name, value] : metadata.value.items())
    patch[name] = value.is_null() ? std::nullopt : std::optional(TRY(metadata.at(name).text()));
  return patch;
}

Result<std::int64_t> read_limit(const Query& query) {
  constexpr std::int64_t kUsual = 20;
  return TRY(query.number("limit", memory::kBasicRowsMax)).value_or(kUsual);
}

// With their contents there are fewer in a page than may be asked for.
Result<std::int64_t> read_limit(const Query& query, memory::View view) {
  const std::int64_t wish = TRY(read_limit(query));
  return view == memory::View::kFull ? std::min<std::int64_t>(wish, memory::kFullRowsMax) : wish;
}

Json time_or_null(const std::optional<std::int64_t>& time_ms) {
  return time_ms ? Json(write_time(*time_ms)) : Json(nullptr);
}

Json show_actor(const Actor& actor) {
  const char* key = "user_id";
  if (actor.kind == Actor::Kind::kSession) key = "session_id";
  if (actor.kind == Actor::Kind::kApiKey) key = "api_key_id";
  if (actor.kind == Actor::Kind::kServiceAccount) key = "service_account_id";
  return {{"type", name_of(actor.kind)}, {key, actor.id}};
}

Result<std::optional<memory::Operation>> read_operation(const Query& query) {
  using memory::Operation;
  const auto word = query.find("operation");
  if (!word) return std::optional<Operation>();
  for (const Operation one : {Operation::kCreated, Operation::kModified, Operation::kDeleted})
    if (*word == name_of(one)) return std::optional(one);
  return make_error(ErrorCode::kInvalid, "read query",
                    "operation: must be created, modified or deleted");
}

Result<std::optional<Actor>> read_actor(const Query& query) {
  std::optional<Actor> actor;
  for (const auto& [name, kind] : {std::pair{"session_id", Actor::Kind::kSession},
                                   std::pair{"api_key_id", Actor::Kind::kApiKey},
                                   std::pair{"service_account_id", Actor::Kind::kServiceAccount}}) {
    const auto id = query.find(name);
    if (!id) continue;
    if (actor)
      return make_error(ErrorCode::kInvalid, "read query",
                        "a version has one actor: name one of session_id, api_key_id and "
                        "service_account_id");
    actor = Actor{.kind = kind, .id = *id};
  }
  return actor;
}

}  // namespace

// ---- what clients say

Result<memory::NewStore> read_new_store(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"name", "description", "metadata"}));
  memory::NewStore store{.name = TRY(needed_text(place, "name", kName))};
  store.description = TRY(optional_text(place, "description", kDescription)).value_or("");
  const Json metadata = TRY(read_metadata(place, "metadata"));
  for (const auto& [key, value] : metadata.items()) store.metadata[key] = value;
  return store;
}

Result<memory::StoreChange> read_store_change(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"name", "description", "metadata"}));
  memory::StoreChange change{.name = TRY(optional_text(place, "name", kName))};
  change.description = TRY(optional_text(place, "description", kDescription));
  if (place.has("description") && !change.description) change.description = "";
  change.metadata = TRY(read_patch(place));
  return change;
}

Result<memory::NewMemory> read_new_memory(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"path", "content"}));
  memory::NewMemory wanted{.path = TRY(needed_text(place, "path", kPath))};
  wanted.content = TRY(optional_text(place, "content", kContent)).value_or("");
  return wanted;
}

Result<memory::MemoryChange> read_memory_change(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"path", "content", "precondition"}));
  memory::MemoryChange change{.content = TRY(optional_text(place, "content", kContent)),
                              .path = TRY(optional_text(place, "path", kPath))};
  if (!has_value(place, "precondition")) return change;
  const JsonPlace precondition = place.at("precondition");
  TRY(type_of(precondition, {"content_sha256"}));
  TRY_VOID(precondition.expect_object({"type", "content_sha256"}));
  change.expected_sha256 = TRY(optional_text(precondition, "content_sha256", {.max = 64}));
  return change;
}

Result<memory::View> read_view(const Query& query, memory::View otherwise) {
  const auto word = query.find("view");
  if (!word) return otherwise;
  if (*word == "basic") return memory::View::kBasic;
  if (*word == "full") return memory::View::kFull;
  return make_error(ErrorCode::kInvalid, "read query", "view: must be basic or full");
}

Result<memory::StoreQuery> read_store_query(const Query& query) {
  return memory::StoreQuery{.created_from_ms = TRY(query.time("created_at[gte]")),
                            .created_to_ms = TRY(query.time("created_at[lte]")),
                            .with_archived = TRY(query.flag("include_archived")),
                            .limit = TRY(read_limit(query)),
                            .page = query.find("page").value_or("")};
}

Result<memory::MemoryQuery> read_memory_query(const Query& query) {
  memory::MemoryQuery wanted{.path_prefix = query.find("path_prefix").value_or("/"),
                             .view = TRY(read_view(query, memory::View::kBasic)),
                             .page = query.find("page").value_or("")};
  if (TRY(query.number("depth", 1)).value_or(0) == 1)
    wanted.depth = memory::MemoryQuery::Depth::kChildren;
  wanted.limit = TRY(read_limit(query, wanted.view));
  return wanted;
}

Result<memory::VersionQuery> read_version_query(const Query& query) {
  memory::VersionQuery wanted{.memory = query.find("memory_id").value_or(""),
                              .operation = TRY(read_operation(query)),
                              .actor = TRY(read_actor(query)),
                              .created_from_ms = TRY(query.time("created_at[gte]")),
                              .created_to_ms = TRY(query.time("created_at[lte]")),
                              .view = TRY(read_view(query, memory::View::kBasic)),
                              .page = query.find("page").value_or("")};
  wanted.limit = TRY(read_limit(query, wanted.view));
  return wanted;
}

// ---- what clients see

Json show_store(const memory::MemoryStore& store) {
  Json metadata = Json::object();
  for (const auto& [key, value] : store.metadata) metadata[key] = value;
  return {{"id", store.id},
          {"type", "memory_store"},
          {"name", store.name},
          {"description", store.description},
          {"metadata", std::move(metadata)},
          {"created_at", write_time(store.created_ms)},
          {"updated_at", write_time(store.updated_ms)},
          {"archived_at", time_or_null(store.archived_ms)}};
}

Json show_memory(const memory::Memory& memory, memory::View view) {
  return {{"id", memory.id},
          {"type", "memory"},
          {"memory_store_id", memory.store},
          {"path", memory.path},
          {"content", view == memory::View::kFull ? or_null(memory.content) : Json(nullptr)},
          {"content_sha256", memory.sha256},
          {"content_size_bytes", memory.size_bytes},
          {"memory_version_id", memory.version},
          {"created_at", write_time(memory.created_ms)},
          {"updated_at", write_time(memory.updated_ms)}};
}

Json show_entry(const memory::MemoryEntry& entry, memory::View view) {
  if (const auto* one = std::get_if<memory::Memory>(&entry)) return show_memory(*one, view);
  return {{"type", "memory_prefix"}, {"path", std::get<memory::MemoryPrefix>(entry).path}};
}

Json show_version(const memory::MemoryVersion& version) {
  return {{"id", version.id},
          {"type", "memory_version"},
          {"memory_id", version.memory},
          {"memory_store_id", version.store},
          {"operation", name_of(version.operation)},
          {"path", or_null(version.path)},
          {"content", or_null(version.content)},
          {"content_sha256", or_null(version.sha256)},
          {"content_size_bytes", version.size_bytes ? Json(*version.size_bytes) : Json(nullptr)},
          {"created_by", show_actor(version.created_by)},
          {"redacted_at", time_or_null(version.redacted_ms)},
          {"redacted_by", version.redacted_by ? show_actor(*version.redacted_by) : Json(nullptr)},
          {"created_at", write_time(version.created_ms)}};
}

}  // namespace pons::managed
