#include "sqlite_error.h"

#include <sqlite3.h>

#include <cerrno>

#include <fmt/format.h>

namespace pons::store {

namespace {

constexpr int kPrimary = 0xFF;

constexpr std::string_view kRestore =
    "stop Pons and run `pons restore BACKUP`, which keeps this file aside";

// SQLite has a code for a full disk, and uses it only where write() said so.
bool is_disk_full(int code, int system_error) {
  return (code & kPrimary) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
         ((code & kPrimary) == SQLITE_IOERR && (system_error == ENOSPC || system_error == EDQUOT));
}

ErrorCode code_of(int code) {
  switch (code & kPrimary) {
    case SQLITE_CONSTRAINT:
      return ErrorCode::kConflict;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kUnavailable;
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
      return ErrorCode::kLimit;
    case SQLITE_INTERRUPT:
      return ErrorCode::kTimeout;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return ErrorCode::kDenied;
    case SQLITE_AUTH:
      return ErrorCode::kInvalid;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
    case SQLITE_FULL:
      return ErrorCode::kIo;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

bool means_damage(int code) {
  return (code & kPrimary) == SQLITE_CORRUPT || (code & kPrimary) == SQLITE_NOTADB ||
         code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC;
}

Error error_of_sqlite(sqlite3* connection, int code, const char* step, std::string_view file) {
  const char* const said =
      connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  const int system_error = connection != nullptr ? sqlite3_system_errno(connection) : 0;
  Error error = make_error(code_of(code), step, {});
  if (is_disk_full(code, system_error)) {
    error.code = ErrorCode::kUnavailable;
    error.os_error = ENOSPC;
    error.message = fmt::format("the disk that holds {} is full; nothing of this was stored", file);
    return error;
  }
  switch (code & kPrimary) {
    case SQLITE_CORRUPT:
      error.message = fmt::format("{} is damaged ({}); {}", file, said, kRestore);
      break;
    case SQLITE_NOTADB:
      error.message =
          fmt::format("{} is no database, or its beginning is destroyed; {}", file, kRestore);
      break;
    case SQLITE_BUSY:
      error.message = fmt::format("another program has {} locked", file);
      break;
    case SQLITE_INTERRUPT:
      error.message = "it took too long";
      break;
    case SQLITE_AUTH:
      error.message = "a statement may read and change rows, and nothing else";
      break;
    case SQLITE_IOERR:
      error.os_error = system_error;
      [[fallthrough]];
    default:
      error.message = fmt::format("{}: {}", file, said);
  }
  return error;
}

}  // namespace pons::store
