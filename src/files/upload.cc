#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/files/file_name.h"
#include "pons/files/file_store.h"
#include "rows.h"

// A file while it comes: a row that nobody finds, and a part for each piece of its bytes.

namespace pons::files {

namespace {

Error too_many(const FileLimits& limits) {
  return make_error(ErrorCode::kLimit, "keep file",
                    fmt::format("the files of a project have at most {} together, and are at most "
                                "{}; delete some",
                                human_bytes(static_cast<std::uint64_t>(limits.project_bytes)),
                                limits.project_files));
}

}  // namespace

Task<Result<FileStore::Upload>> FileStore::begin(std::string project) {
  constexpr std::size_t kIdLength = 26;
  std::string id = "file_" + random_text(kIdLength);
  const auto begun = co_await store_.write(
      {{.sql = "INSERT INTO file_usage (project_id, files, bytes) VALUES ($1, 0, 0) "
               "ON CONFLICT (project_id) DO NOTHING",
        .values = {project}},
       count_files(project, 1, 0, limits_),
       {.sql = "INSERT INTO files (id, project_id, state, name, mime_type, scope, place, bytes, "
               "parts, digest, created, touched) "
               "VALUES ($1, $2, 'coming', '', '', '', '', 0, 0, '', $3, $3)",
        .values = {id, project, now_ms()}}});
  if (!begun && begun.error().code == ErrorCode::kConflict) co_return too_many(limits_);
  if (!begun) co_return begun.error();
  co_return Upload(*this, std::move(project), std::move(id));
}

Task<Result<void>> FileStore::Upload::write(std::string_view bytes) {
  if (bytes_ + static_cast<std::int64_t>(buffer_.size() + bytes.size()) > files_.limits_.bytes)
    co_return make_error(
        ErrorCode::kInvalid, "keep file",
        fmt::format("a file has at most {}",
                    human_bytes(static_cast<std::uint64_t>(files_.limits_.bytes))));
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPartBytes - buffer_.size());
    buffer_ += piece;
    bytes.remove_prefix(piece.size());
    if (buffer_.size() == kPartBytes) CO_TRY_VOID(co_await store_part());
  }
  co_return {};
}

Task<Result<void>> FileStore::Upload::store_part() {
  const auto size = static_cast<std::int64_t>(buffer_.size());
  digests_ += sha256_hex(buffer_);
  const auto stored = co_await files_.store_.write(
      {count_files(project_, 0, size, files_.limits_),
       {.sql = "UPDATE files SET bytes = bytes + $2, parts = parts + 1, touched = $3 "
               "WHERE id = $1 AND state = 'coming'",
        .values = {id_, size, files_.now_ms()},
        .must_change = 1},
       {.sql = "INSERT INTO file_parts (file_id, part, project_id, bytes) VALUES ($1, $2, $3, $4)",
        .values = {id_, parts_, project_, store::Blob{std::move(buffer_)}}}});
  buffer_.clear();
  if (!stored && stored.error().code == ErrorCode::kConflict) co_return too_many(files_.limits_);
  if (!stored) co_return stored.error();
  bytes_ += size;
  ++parts_;
  co_return {};
}

Task<Result<File>> FileStore::Upload::finish(NewFile details) {
  if (const auto last = buffer_.empty() ? Result<void>() : co_await store_part(); !last) {
    co_await give_up();
    co_return last.error();
  }
  File file{.id = id_,
            .project = project_,
            .mime_type = mime_type_of(details.mime_type),
            .scope = std::move(details.scope),
            .place = std::move(details.place),
            .bytes = bytes_,
            .parts = parts_,
            .digest = sha256_hex(digests_),
            .created_ms = files_.now_ms()};
  file.name = file_name(details.name, file.mime_type);
  store::Value expires;
  if (details.expires_in_ms) {
    file.expires_ms = file.created_ms + *details.expires_in_ms;
    expires = *file.expires_ms;
  }
  const auto done = co_await files_.store_.write(
      {{.sql = "UPDATE files SET state = 'ready', name = $2, mime_type = $3, scope = $4, "
               "place = $5, digest = $6, created = $7, touched = $7, expires = $8 "
               "WHERE id = $1 AND state = 'coming'",
        .values = {file.id, file.name, file.mime_type, file.scope, file.place, file.digest,
                   file.created_ms, std::move(expires)},
        .must_change = 1}});
  if (!done && done.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kInvalid, "keep file", "it took too long to come");
  if (!done) co_return done.error();
  co_return file;
}

Task<> FileStore::Upload::give_up() {
  const auto hidden = co_await files_.store_.write(
      {{.sql = "UPDATE files SET state = 'gone' WHERE id = $1 AND state = 'coming'",
        .values = {id_},
        .must_change = 1}});
  const File file{.id = id_, .project = project_, .bytes = bytes_};
  if (!hidden) co_return;
  if (const auto removed = co_await files_.forget(file); !removed)
    LOG_WARN("a file that did not come wholly is not removed yet", {"error", removed.error()});
}

}  // namespace pons::files
