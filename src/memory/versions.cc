#include <fmt/format.h>

#include "cursor.h"
#include "pons/base/text.h"
#include "pons/memory/memory_stores.h"
#include "rows.h"
#include "statements.h"

namespace pons::memory {

namespace {

Result<void> check(const VersionQuery& query) {
  const std::int64_t most = query.view == View::kFull ? kFullRowsMax : kBasicRowsMax;
  if (query.limit >= 1 && query.limit <= most) return {};
  return make_error(ErrorCode::kInvalid, "list versions",
                    fmt::format("limit must be 1 to {} in this view", most));
}

std::string name_of_list(const Place& place, const VersionQuery& query) {
  return fmt::format("versions {} {} {} {} {} {} {}", place.store, query.memory,
                     query.operation ? name_of(*query.operation) : "",
                     query.actor ? name_of(query.actor->kind) : "",
                     query.actor ? query.actor->id : "", query.created_from_ms.value_or(-1),
                     query.created_to_ms.value_or(-1));
}

std::string conditions(const VersionQuery& query, Values& values) {
  std::string where;
  const auto add = [&](std::string_view condition, store::Value value) {
    where += fmt::format(" AND {} {}", condition, parameter(values, std::move(value)));
  };
  if (!query.memory.empty()) add("v.memory_id =", query.memory);
  if (query.operation) add("v.operation =", std::string(name_of(*query.operation)));
  if (query.actor) {
    add("v.actor_kind =", std::string(name_of(query.actor->kind)));
    add("v.actor_id =", query.actor->id);
  }
  if (query.created_from_ms) add("v.created >=", *query.created_from_ms);
  if (query.created_to_ms) add("v.created <=", *query.created_to_ms);
  return where;
}

}  // namespace

// By number, which is the order in which they happened: several fall into one millisecond.
Task<Result<Page<MemoryVersion>>> MemoryStores::list_versions(Place place, VersionQuery query) {
  CO_TRY_VOID(check(query));
  CO_TRY_VOID(co_await find_store(place));
  const std::string list = name_of_list(place, query);
  Values values = {place.store, place.project};
  std::string where = conditions(query, values);
  if (!query.page.empty()) {
    CO_TRY(const std::string position, read_cursor(list, query.page));
    const auto before = parse_decimal(position);
    if (!before || *before > INT64_MAX)
      co_return make_error(ErrorCode::kInvalid, "read page", "page is no cursor of this list");
    where += " AND v.number < " + parameter(values, static_cast<std::int64_t>(*before));
  }
  std::string sql = fmt::format(
      "SELECT {}, {} FROM memory_versions AS v WHERE v.store_id = $1 AND v.project_id = $2{} "
      "ORDER BY v.number DESC LIMIT {}",
      kVersionColumns, sql_of(query.view).column, where, parameter(values, query.limit + 1));
  CO_TRY(const auto rows, co_await read(std::move(sql), std::move(values)));
  Page<MemoryVersion> page;
  for (const store::Row& row : rows) {
    if (static_cast<std::int64_t>(page.entries.size()) == query.limit) {
      page.next = write_cursor(list, fmt::format("{}", page.entries.back().number));
      break;
    }
    CO_TRY(auto version, version_of(row));
    page.entries.push_back(std::move(version));
  }
  co_return page;
}

Task<Result<MemoryVersion>> MemoryStores::find_version(Place place, std::string id, View view) {
  CO_TRY(
      const auto rows,
      co_await read(fmt::format("SELECT {}, {} FROM memory_versions AS v JOIN memory_stores AS s "
                                "ON s.id = v.store_id AND s.deleted IS NULL WHERE v.id = $1 "
                                "AND v.store_id = $2 AND v.project_id = $3",
                                kVersionColumns, sql_of(view).column),
                    {std::move(id), place.store, place.project}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find version",
                         "there is no such version in this memory store");
  co_return version_of(rows.front());
}

Task<Result<std::optional<MemoryVersion>>> MemoryStores::find_change(Place place,
                                                                     std::string change) {
  if (change.empty()) co_return std::nullopt;
  auto version = co_await find_version(std::move(place), version_of_change(change), View::kBasic);
  if (version) co_return std::move(*version);
  if (version.error().code != ErrorCode::kNotFound) co_return version.error();
  co_return std::nullopt;
}

// Only ever once; whoever comes second finds it done.
Task<Result<MemoryVersion>> MemoryStores::redact_version(Place place, std::string id, Actor actor) {
  CO_TRY(MemoryVersion seen, co_await find_version(place, id, View::kBasic));
  if (seen.redacted_ms) co_return seen;
  auto written = co_await store_.write(
      {count_loss(place, {.memories = 0, .bytes = seen.size_bytes.value_or(0)}),
       {.sql = "UPDATE memory_versions SET path = NULL, content = NULL, sha256 = NULL, "
               "size = NULL, redacted = $4, redacted_actor_kind = $5, redacted_actor_id = $6 "
               "WHERE id = $1 AND store_id = $2 AND project_id = $3 AND redacted IS NULL "
               "AND NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.id = memory_versions.memory_id "
               "AND m.version_id = memory_versions.id)",
        .values = {id, place.store, place.project, now_ms(), std::string(name_of(actor.kind)),
                   actor.id},
        .must_change = 1}});
  if (!written && written.error().code != ErrorCode::kConflict) co_return written.error();
  CO_TRY(MemoryVersion now, co_await find_version(place, id, View::kBasic));
  if (!now.redacted_ms)
    co_return make_error(ErrorCode::kInvalid, "redact version",
                         "this version is what its memory holds now; change or delete the memory "
                         "first");
  co_return now;
}

}  // namespace pons::memory
