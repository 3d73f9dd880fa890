#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/memory/memory_stores.h"
#include "statements.h"

// The end of a store: it is hidden by one write, and removed in steps that hold nobody up for long.

namespace pons::memory {

Task<Result<void>> MemoryStores::delete_store(Place place) {
  auto written = co_await store_.write(
      {{.sql = "UPDATE memory_stores SET deleted = $3 WHERE id = $1 AND project_id = $2 "
               "AND deleted IS NULL",
        .values = {place.store, place.project, now_ms()},
        .must_change = 1}});
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kNotFound, "delete memory store",
                         "there is no memory store of this id");
  if (!written) co_return written.error();
  // It is gone for everybody; what cannot be removed now is removed by the next sweep.
  if (const auto swept = co_await sweep_store(place.store); !swept)
    LOG_WARN("a deleted memory store is not removed yet", {"store", place.store},
             {"error", swept.error()});
  co_return {};
}

Task<Result<void>> MemoryStores::sweep() {
  constexpr std::int64_t kStoresAtOnce = 100;
  CO_TRY(const auto rows, co_await read("SELECT id FROM memory_stores WHERE deleted IS NOT NULL "
                                        "ORDER BY id LIMIT $1",
                                        {kStoresAtOnce}));
  for (const store::Row& row : rows) {
    CO_TRY(auto id, store::text_of(row, 0));
    CO_TRY_VOID(co_await sweep_store(std::move(id)));
  }
  co_return {};
}

Task<Result<void>> MemoryStores::sweep_store(std::string id) {
  CO_TRY_VOID(co_await sweep_rows(id));
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "DELETE FROM memory_stores WHERE id = $1 AND deleted IS NOT NULL",
        .values = {id}}}));
  co_return {};
}

// Memories before versions: what the index holds of a memory stands in its version.
Task<Result<void>> MemoryStores::sweep_rows(std::string id) {
  for (const std::string_view table : {"memories", "memory_versions"}) {
    for (;;) {
      CO_TRY(const auto rows, co_await read(fmt::format("SELECT number FROM {} WHERE store_id = $1 "
                                                        "ORDER BY number LIMIT $2",
                                                        table),
                                            {id, limits_.swept_at_once}));
      if (rows.empty()) break;
      CO_TRY(const std::int64_t last, store::integer_of(rows.back(), 0));
      store::Transaction all;
      if (table == "memories") remove_words_up_to(store_.dialect(), id, last, all);
      all.push_back({.sql = fmt::format("DELETE FROM {} WHERE store_id = $1 AND number <= $2 "
                                        "AND store_id IN (SELECT id FROM memory_stores "
                                        "WHERE deleted IS NOT NULL)",
                                        table),
                     .values = {id, last}});
      CO_TRY_VOID(co_await store_.write(std::move(all)));
    }
  }
  co_return {};
}

}  // namespace pons::memory
