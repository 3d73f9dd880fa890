#include <algorithm>

#include <fmt/format.h>

#include "cursor.h"
#include "nfc.h"
#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/memory/memory_stores.h"
#include "rows.h"
#include "statements.h"

namespace pons::memory {

namespace {

constexpr std::size_t kNameMax = 255;
constexpr std::size_t kDescriptionMax = 1024;
constexpr std::size_t kMetadataKeysMax = 16;
constexpr std::size_t kMetadataKeyMax = 64;
constexpr std::size_t kMetadataValueMax = 512;
constexpr int kAttempts = 8;

struct StoreTag {
  static constexpr std::string_view kPrefix = "memstore";
};

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "check memory store", std::move(message));
}

// In characters, as people count. Lines are fine where `lines` is not empty.
Result<void> check_text(std::string_view what, std::string_view text, std::size_t most,
                        std::string_view lines = {}) {
  if (!is_valid_utf8(text)) return refuse(fmt::format("{} is no UTF-8", what));
  const std::u32string codes = decode_utf8(text);
  if (codes.size() > most)
    return refuse(fmt::format("{} is longer than {} characters", what, most));
  for (const char32_t code : codes)
    if (code < 0x20 && lines.find(static_cast<char>(code)) == std::string_view::npos)
      return refuse(fmt::format("{} holds a control character", what));
  return {};
}

Result<void> check_store(const NewStore& store) {
  if (store.name.empty()) return refuse("name is empty");
  TRY_VOID(check_text("name", store.name, kNameMax));
  TRY_VOID(check_text("description", store.description, kDescriptionMax, "\n\r\t"));
  if (store.metadata.size() > kMetadataKeysMax)
    return refuse(fmt::format("metadata has more than {} keys", kMetadataKeysMax));
  for (const auto& [key, value] : store.metadata) {
    if (key.empty()) return refuse("metadata has an empty key");
    TRY_VOID(check_text("a key of metadata", key, kMetadataKeyMax));
    TRY_VOID(check_text("a value of metadata", value, kMetadataValueMax, "\n\r\t"));
  }
  return {};
}

std::string text_of(const NewStore& store) {
  return fmt::format("{}\n{}\n{}", store.name, store.description, write_metadata(store.metadata));
}

NewStore changed(const MemoryStore& seen, const StoreChange& change) {
  NewStore wanted{.name = change.name.value_or(seen.name),
                  .description = change.description.value_or(seen.description),
                  .metadata = seen.metadata};
  for (const auto& [key, value] : change.metadata) {
    if (value)
      wanted.metadata[key] = *value;
    else
      wanted.metadata.erase(key);
  }
  return wanted;
}

Error no_store() {
  return make_error(ErrorCode::kNotFound, "find memory store",
                    "there is no memory store of this id");
}

Error is_archived() {
  return make_error(ErrorCode::kInvalid, "change memory store",
                    "the memory store is archived; what is in it can be read and deleted only");
}

Error too_busy() {
  return make_error(ErrorCode::kConflict, "change memory store",
                    "too many change it at the same time; try again");
}

struct StorePosition {
  std::int64_t created_ms;
  std::string id;
};
Result<std::optional<StorePosition>> read_position(std::string_view list, const std::string& page) {
  if (page.empty()) return std::nullopt;
  const std::string position = TRY(read_cursor(list, page));
  const std::size_t colon = position.find(':');
  const auto created = parse_decimal(position.substr(0, colon));
  if (colon == std::string::npos || !created || *created > INT64_MAX)
    return make_error(ErrorCode::kInvalid, "read page", "page is no cursor of this list");
  return StorePosition{.created_ms = static_cast<std::int64_t>(*created),
                       .id = position.substr(colon + 1)};
}

}  // namespace

MemoryStores::MemoryStores(store::Store& store, const Clock& clock, SecretCheck check,
                           MemoryLimits limits)
    : store_(store), clock_(clock), check_(std::move(check)), limits_(limits) {}

std::int64_t MemoryStores::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Result<std::vector<store::Row>>> MemoryStores::read(std::string sql, Values values) {
  co_return co_await store_.read({.sql = std::move(sql), .values = std::move(values)});
}

Task<Result<void>> MemoryStores::refuse_secrets(std::string text) {
  CO_TRY(auto names, co_await check_(std::move(text)));
  if (names.empty()) co_return {};
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  co_return make_error(
      ErrorCode::kDenied, "write memory",
      fmt::format("the text holds the credential {}; memory keeps none: write its name instead",
                  fmt::join(names, ", ")));
}

Task<Result<MemoryStore>> MemoryStores::find_store(Place place) {
  CO_TRY(const auto rows,
         co_await read(fmt::format("SELECT {} FROM memory_stores AS s WHERE s.id = $1 "
                                   "AND s.project_id = $2 AND s.deleted IS NULL",
                                   kStoreColumns),
                       {place.store, place.project}));
  if (rows.empty()) co_return no_store();
  co_return store_of(rows.front());
}

Task<Result<MemoryStore>> MemoryStores::create_store(std::string project, NewStore wanted) {
  CO_TRY_VOID(check_store(wanted));
  CO_TRY_VOID(co_await refuse_secrets(text_of(wanted)));
  const std::string id = Id<StoreTag>::generate().text();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    // Its number is unique: of two that take the same, one is made again.
    auto written = co_await store_.write(
        {{.sql = "INSERT INTO memory_stores (id, project_id, number, name, description, metadata, "
                 "revision, memories, bytes, created, updated) "
                 "SELECT $1, $2, (SELECT COALESCE(MAX(number), 0) + 1 FROM memory_stores), $3, $4, "
                 "$5, 0, 0, 0, CAST($6 AS BIGINT), CAST($6 AS BIGINT) "
                 "WHERE (SELECT count(*) FROM memory_stores WHERE project_id = $2) < $7",
          .values = {id, project, wanted.name, wanted.description, write_metadata(wanted.metadata),
                     now_ms(), limits_.stores}}});
    if (!written && written.error().code == ErrorCode::kConflict) continue;
    if (!written) co_return written.error();
    if (written->front().changed == 0)
      co_return make_error(
          ErrorCode::kLimit, "create memory store",
          fmt::format("the project has {} memory stores, which is the most; delete some",
                      limits_.stores));
    co_return co_await find_store({.project = project, .store = id});
  }
  co_return too_busy();
}

Task<Result<MemoryStore>> MemoryStores::update_store(Place place, StoreChange change) {
  bool is_checked = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    CO_TRY(const MemoryStore seen, co_await find_store(place));
    if (seen.archived_ms) co_return is_archived();
    const NewStore wanted = changed(seen, change);
    CO_TRY_VOID(check_store(wanted));
    if (wanted.name == seen.name && wanted.description == seen.description &&
        wanted.metadata == seen.metadata)
      co_return seen;
    if (!is_checked) CO_TRY_VOID(co_await refuse_secrets(text_of(wanted)));
    is_checked = true;
    const auto written = co_await store_.write(
        {{.sql = "UPDATE memory_stores SET name = $3, description = $4, metadata = $5, "
                 "updated = $6 WHERE id = $1 AND project_id = $2 AND archived IS NULL "
                 "AND deleted IS NULL AND name = $7 AND description = $8 AND metadata = $9",
          .values = {place.store, place.project, wanted.name, wanted.description,
                     write_metadata(wanted.metadata), now_ms(), seen.name, seen.description,
                     write_metadata(seen.metadata)},
          .must_change = 1}});
    if (written) co_return co_await find_store(place);
    if (written.error().code != ErrorCode::kConflict) co_return written.error();
  }
  co_return too_busy();
}

Task<Result<MemoryStore>> MemoryStores::archive_store(Place place) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE memory_stores SET archived = $3, updated = $3 WHERE id = $1 "
               "AND project_id = $2 AND archived IS NULL AND deleted IS NULL",
        .values = {place.store, place.project, now_ms()}}}));
  co_return co_await find_store(place);
}

Task<Result<Page<MemoryStore>>> MemoryStores::list_stores(std::string project, StoreQuery query) {
  if (query.limit < 1 || query.limit > kBasicRowsMax)
    co_return refuse(fmt::format("limit must be 1 to {}", kBasicRowsMax));
  const std::string list =
      fmt::format("stores {} {} {} {}", project, query.created_from_ms.value_or(-1),
                  query.created_to_ms.value_or(-1), query.with_archived);
  CO_TRY(const auto after, read_position(list, query.page));
  Values values = {project};
  std::string where = "s.project_id = $1 AND s.deleted IS NULL";
  if (!query.with_archived) where += " AND s.archived IS NULL";
  if (query.created_from_ms)
    where += " AND s.created >= " + parameter(values, *query.created_from_ms);
  if (query.created_to_ms) where += " AND s.created <= " + parameter(values, *query.created_to_ms);
  if (after) {
    const std::string created = parameter(values, after->created_ms);
    where +=
        fmt::format(" AND (s.created, s.id) < ({}, {})", created, parameter(values, after->id));
  }
  std::string sql = fmt::format(
      "SELECT {} FROM memory_stores AS s WHERE {} "
      "ORDER BY s.created DESC, s.id DESC LIMIT {}",
      kStoreColumns, where, parameter(values, query.limit + 1));
  CO_TRY(const auto rows, co_await read(std::move(sql), std::move(values)));
  Page<MemoryStore> page;
  for (const store::Row& row : rows) {
    if (static_cast<std::int64_t>(page.entries.size()) == query.limit) {
      const MemoryStore& last = page.entries.back();
      page.next = write_cursor(list, fmt::format("{}:{}", last.created_ms, last.id));
      break;
    }
    CO_TRY(auto store, store_of(row));
    page.entries.push_back(std::move(store));
  }
  co_return page;
}

}  // namespace pons::memory
