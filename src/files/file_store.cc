#include "pons/files/file_store.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "rows.h"

namespace pons::files {

namespace {

Error no_file() {
  return make_error(ErrorCode::kNotFound, "find file", "there is no file of this id");
}

}  // namespace

std::int64_t FileStore::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Result<File>> FileStore::find(std::string project, std::string id) {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM files WHERE id = $1 AND project_id = $2",
                                 kFileColumns),
              .values = {std::move(id), std::move(project)}}));
  if (rows.empty()) co_return no_file();
  CO_TRY(auto file, file_of(rows.front()));
  CO_TRY(const auto state, state_of(rows.front()));
  if (state == "expired" || (state == "ready" && file.expires_ms && *file.expires_ms <= now_ms()))
    co_return make_error(ErrorCode::kDenied, "find file", "the file has expired");
  if (state != "ready") co_return no_file();
  co_return file;
}

Task<Result<std::vector<File>>> FileStore::find_all(std::string project,
                                                    std::vector<std::string> ids) {
  std::vector<File> files;
  if (ids.empty()) co_return files;
  store::Statement statement{
      .sql = fmt::format("SELECT {} FROM files WHERE project_id = $1 AND state = 'ready' "
                         "AND (expires IS NULL OR expires > $2) AND id IN (",
                         kFileColumns),
      .values = {std::move(project), now_ms()}};
  for (std::string& id : ids) {
    statement.sql += statement.values.size() == 2 ? "" : ", ";
    statement.values.emplace_back(std::move(id));
    statement.sql += fmt::format("${}", statement.values.size());
  }
  statement.sql += ")";
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  for (const store::Row& row : rows) {
    CO_TRY(auto file, file_of(row));
    files.push_back(std::move(file));
  }
  co_return files;
}

Task<Result<std::vector<File>>> FileStore::list(std::string project, FileQuery query) {
  store::Statement statement{
      .sql = fmt::format("SELECT {} FROM files WHERE project_id = $1 AND state = 'ready' "
                         "AND (expires IS NULL OR expires > $2)",
                         kFileColumns),
      .values = {std::move(project), now_ms()}};
  const auto place = [&](store::Value value) {
    statement.values.push_back(std::move(value));
    return fmt::format("${}", statement.values.size());
  };
  if (!query.scope.empty())
    statement.sql += fmt::format(" AND scope = {}", place(std::move(query.scope)));
  if (query.after) {
    const std::string at = place(query.after->created_ms);
    statement.sql += fmt::format(" AND (created < {0} OR (created = {0} AND id < {1}))", at,
                                 place(std::move(query.after->id)));
  }
  statement.sql += fmt::format(" ORDER BY created DESC, id DESC LIMIT {}", place(query.limit + 1));
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<File> files;
  for (const store::Row& row : rows) {
    CO_TRY(auto file, file_of(row));
    files.push_back(std::move(file));
  }
  co_return files;
}

Task<Result<std::string>> FileStore::read_part(const File& file, std::int64_t part) {
  CO_TRY(auto rows,
         co_await store_.read({.sql = "SELECT bytes FROM file_parts WHERE file_id = $1 AND "
                                      "part = $2 AND project_id = $3",
                               .values = {file.id, part, file.project}}));
  auto* blob = rows.empty() ? nullptr : std::get_if<store::Blob>(&rows.front().front());
  if (blob == nullptr)
    co_return make_error(ErrorCode::kNotFound, "read file", "the file was deleted meanwhile");
  co_return std::move(blob->bytes);
}

Task<Result<void>> FileStore::remove(std::string project, std::string id) {
  CO_TRY(auto file, co_await find(std::move(project), std::move(id)));
  const auto hidden = co_await store_.write(
      {{.sql = "UPDATE files SET state = 'gone' WHERE id = $1 AND state = 'ready'",
        .values = {file.id},
        .must_change = 1}});
  if (!hidden && hidden.error().code == ErrorCode::kConflict) co_return no_file();
  if (!hidden) co_return hidden.error();
  // It is gone for everybody; what cannot be removed now is removed by the next sweep.
  if (const auto removed = co_await forget(std::move(file)); !removed)
    LOG_WARN("a deleted file is not removed yet", {"error", removed.error()});
  co_return {};
}

// In steps that hold nobody up for long.
Task<Result<void>> FileStore::remove_parts(std::string id) {
  for (;;) {
    CO_TRY(const auto rows,
           co_await store_.read({.sql = "SELECT part FROM file_parts WHERE file_id = $1 "
                                        "ORDER BY part LIMIT $2",
                                 .values = {id, limits_.removed_at_once}}));
    if (rows.empty()) co_return {};
    CO_TRY(const auto last, store::integer_of(rows.back(), 0));
    CO_TRY_VOID(co_await store_.write(
        {{.sql = "DELETE FROM file_parts WHERE file_id = $1 AND part <= $2 AND file_id IN "
                 "(SELECT id FROM files WHERE state IN ('gone', 'expired'))",
          .values = {id, last}}}));
  }
}

// The row goes last, and with it what it counted; of two that do this, one does it.
Task<Result<void>> FileStore::forget(File file) {
  CO_TRY_VOID(co_await remove_parts(file.id));
  const auto forgotten =
      co_await store_.write({{.sql = "DELETE FROM files WHERE id = $1 AND state = 'gone'",
                              .values = {file.id},
                              .must_change = 1},
                             count_files(file.project, -1, -file.bytes, limits_)});
  if (!forgotten && forgotten.error().code != ErrorCode::kConflict) co_return forgotten.error();
  co_return {};
}

// An expired file leaves its row behind, which says so.
Task<Result<void>> FileStore::leave_a_note(File file) {
  CO_TRY_VOID(co_await remove_parts(file.id));
  const auto noted = co_await store_.write(
      {{.sql = "UPDATE files SET bytes = 0, parts = 0 WHERE id = $1 AND state = 'expired' "
               "AND parts > 0",
        .values = {file.id},
        .must_change = 1},
       count_files(file.project, 0, -file.bytes, limits_)});
  if (!noted && noted.error().code != ErrorCode::kConflict) co_return noted.error();
  co_return {};
}

Task<Result<void>> FileStore::sweep() {
  constexpr std::int64_t kFilesAtOnce = 100;
  const std::int64_t now = now_ms();
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE files SET state = 'gone' WHERE state = 'coming' AND touched < $1",
        .values = {now - limits_.upload_ms}},
       {.sql = "UPDATE files SET state = 'gone' WHERE state = 'expired' AND touched < $1",
        .values = {now - limits_.expired_ms}},
       {.sql = "UPDATE files SET state = 'expired', touched = $1 WHERE state = 'ready' "
               "AND expires IS NOT NULL AND expires <= $1",
        .values = {now}}}));
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM files WHERE state = 'gone' OR "
                                 "(state = 'expired' AND parts > 0) ORDER BY id LIMIT $1",
                                 kFileColumns),
              .values = {kFilesAtOnce}}));
  for (const store::Row& row : rows) {
    CO_TRY(auto file, file_of(row));
    CO_TRY(const auto state, state_of(row));
    if (state == "gone")
      CO_TRY_VOID(co_await forget(std::move(file)));
    else
      CO_TRY_VOID(co_await leave_a_note(std::move(file)));
  }
  co_return {};
}

}  // namespace pons::files
