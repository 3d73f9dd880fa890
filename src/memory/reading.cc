#include <fmt/format.h>

#include "cursor.h"
#include "pons/memory/memory_stores.h"
#include "pons/memory/path.h"
#include "rows.h"
#include "statements.h"

namespace pons::memory {

namespace {

Error no_memory() {
  return make_error(ErrorCode::kNotFound, "find memory", "there is no such memory in this store");
}

std::string select_memories(View view, std::string_view where) {
  const ViewSql sql = sql_of(view);
  return fmt::format(
      "SELECT {}, {} FROM memories AS m "
      "JOIN memory_stores AS s ON s.id = m.store_id AND s.deleted IS NULL {} "
      "WHERE m.project_id = $1 AND m.store_id = $2 AND {}",
      kMemoryColumns, sql.column, sql.join, where);
}

Result<void> check_limit(std::int64_t limit, View view) {
  const std::int64_t most = view == View::kFull ? kFullRowsMax : kBasicRowsMax;
  if (limit >= 1 && limit <= most) return {};
  return make_error(ErrorCode::kInvalid, "list memories",
                    fmt::format("limit must be 1 to {} in this view", most));
}

// Gathers a page out of rows in the order of their paths.
class PageOfChildren {
 public:
  PageOfChildren(const MemoryQuery& query, std::string from)
      : query_(query),
        all_(below_folder(query.path_prefix.substr(0, query.path_prefix.size() - 1))),
        from_(from.empty() ? all_.first : std::move(from)) {}

  bool is_full() const { return static_cast<std::int64_t>(entries_.size()) == query_.limit; }
  const std::string& from() const { return from_; }
  const std::string& end() const { return all_.end; }

  // What stands in a folder that is shown already is passed over.
  void add(Memory memory) {
    if (memory.path < from_) return;
    const std::size_t slash = query_.depth == MemoryQuery::Depth::kChildren
                                  ? memory.path.find('/', query_.path_prefix.size())
                                  : std::string::npos;
    if (slash == std::string::npos) {
      from_ = after_path(memory.path);
      entries_.emplace_back(std::move(memory));
    } else {
      from_ = below_folder(memory.path.substr(0, slash)).end;
      entries_.emplace_back(MemoryPrefix{.path = memory.path.substr(0, slash + 1)});
    }
  }
  std::vector<MemoryEntry> take() { return std::move(entries_); }

 private:
  const MemoryQuery& query_;
  PathInterval all_;
  std::string from_;
  std::vector<MemoryEntry> entries_;
};

}  // namespace

Task<Result<Memory>> MemoryStores::find(Place place, std::string id, View view) {
  CO_TRY(const auto rows, co_await read(select_memories(view, "m.id = $3"),
                                        {place.project, place.store, std::move(id)}));
  if (rows.empty()) co_return no_memory();
  co_return memory_of(rows.front());
}

Task<Result<Memory>> MemoryStores::find_by_path(Place place, std::string path, View view) {
  CO_TRY_VOID(check_path(path));
  CO_TRY(const auto rows, co_await read(select_memories(view, "m.path = $3"),
                                        {place.project, place.store, std::move(path)}));
  if (rows.empty()) co_return no_memory();
  co_return memory_of(rows.front());
}

// Where only children are wanted, a read may end inside of a folder: the next one begins behind it.
Task<Result<Page<MemoryEntry>>> MemoryStores::list(Place place, MemoryQuery query) {
  CO_TRY_VOID(check_limit(query.limit, query.view));
  CO_TRY_VOID(check_prefix(query.path_prefix));
  CO_TRY_VOID(co_await find_store(place));
  const std::string list = fmt::format("memories {} {} {}", place.store,
                                       static_cast<int>(query.depth), query.path_prefix);
  std::string from;
  if (!query.page.empty()) {
    CO_TRY(from, read_cursor(list, query.page));
  }
  PageOfChildren page(query, std::move(from));
  const std::string sql =
      select_memories(query.view, "m.path >= $3 AND m.path < $4 ORDER BY m.path LIMIT $5");
  const std::int64_t wanted = query.limit + 1;
  for (;;) {
    CO_TRY(const auto rows,
           co_await read(sql, {place.project, place.store, page.from(), page.end(), wanted}));
    for (const store::Row& row : rows) {
      CO_TRY(auto memory, memory_of(row));
      const bool is_shown = memory.path < page.from();
      if (page.is_full() && !is_shown) {
        std::string next = write_cursor(list, page.from());
        co_return Page<MemoryEntry>{.entries = page.take(), .next = std::move(next)};
      }
      page.add(std::move(memory));
    }
    if (static_cast<std::int64_t>(rows.size()) < wanted) break;
  }
  co_return Page<MemoryEntry>{.entries = page.take(), .next = {}};
}

Task<Result<Memory>> MemoryStores::mark(Place place, std::string id, Marks marks) {
  CO_TRY(const Memory seen, co_await find(place, id, View::kBasic));
  const bool pinned = marks.pinned.value_or(seen.pinned);
  const Provenance provenance = marks.provenance.value_or(seen.provenance);
  auto written = co_await store_.write(
      {{.sql = "UPDATE memories SET pinned = $4, provenance = $5 WHERE id = $1 AND store_id = $2 "
               "AND project_id = $3 AND version_id = $6",
        .values = {id, place.store, place.project, static_cast<std::int64_t>(pinned),
                   std::string(name_of(provenance)), seen.version},
        .must_change = 1}});
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kConflict, "mark memory",
                         "the memory has just been changed; look at it again");
  if (!written) co_return written.error();
  co_return co_await find(place, id, View::kBasic);
}

Task<Result<void>> MemoryStores::note_use(Place place, std::string id) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = fmt::format(
            "UPDATE memories SET uses = uses + 1, used = $4, weight = {} "
            "WHERE id = $1 AND store_id = $2 AND project_id = $3",
            weight_sql("(CASE WHEN updated > $4 THEN updated ELSE $4 END)", "(uses + 1)")),
        .values = {std::move(id), place.store, place.project, now_ms()}}}));
  co_return {};
}

}  // namespace pons::memory
