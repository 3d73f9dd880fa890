#include "rows.h"

namespace pons::files {

namespace {

constexpr std::size_t kStateColumn = 11;

}  // namespace

Result<File> file_of(const store::Row& row) {
  return File{.id = TRY(store::text_of(row, 0)),
              .project = TRY(store::text_of(row, 1)),
              .name = TRY(store::text_of(row, 2)),
              .mime_type = TRY(store::text_of(row, 3)),
              .scope = TRY(store::text_of(row, 4)),
              .place = TRY(store::text_of(row, 5)),
              .bytes = TRY(store::integer_of(row, 6)),
              .parts = TRY(store::integer_of(row, 7)),
              .digest = TRY(store::text_of(row, 8)),
              .created_ms = TRY(store::integer_of(row, 9)),
              .expires_ms = TRY(store::optional_integer_of(row, 10))};
}

Result<std::string> state_of(const store::Row& row) {
  return store::text_of(row, kStateColumn);
}

store::Statement count_files(const std::string& project, std::int64_t files, std::int64_t bytes,
                             const FileLimits& limits) {
  // What becomes less is never too much, also when less is allowed than there was.
  if (files <= 0 && bytes <= 0)
    return {.sql =
                "UPDATE file_usage SET files = files + $2, bytes = bytes + $3 "
                "WHERE project_id = $1",
            .values = {project, files, bytes}};
  return {.sql =
              "UPDATE file_usage SET files = files + $2, bytes = bytes + $3 "
              "WHERE project_id = $1 AND files + $2 <= $4 AND bytes + $3 <= $5",
          .values = {project, files, bytes, limits.project_files, limits.project_bytes},
          .must_change = 1};
}

}  // namespace pons::files
