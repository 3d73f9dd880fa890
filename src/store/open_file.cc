#include "open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "file_migrations.h"
#include "pons/linux/fd.h"
#include "pons/store/store_file.h"

namespace pons::store {

namespace {

// Says in the file's head whose it is.
constexpr std::int64_t kApplicationId = 0x506F6E73;  // "Pons"

// Larger files are looked at where they are read, and whole by `pons backup` and `pons restore`.
constexpr std::int64_t kCheckedBytesMax = 256LL << 20;

constexpr std::string_view kRestore = "run `pons restore BACKUP`, which keeps what is there aside";

Error refuse(std::string message) {
  return make_error(ErrorCode::kIo, "open store", std::move(message));
}

Result<std::int64_t> number(Database& database, const char* pragma) {
  const auto rows = TRY(database.ask({.sql = pragma, .values = {}}));
  if (rows.size() != 1) return refuse(fmt::format("{} does not answer", database.shown()));
  return integer_of(rows.front(), 0);
}

Result<void> check_owner(Database& database) {
  if (TRY(number(database, "PRAGMA application_id")) == kApplicationId) return {};
  return refuse(fmt::format("{} is the database of another program; move it away, or {}",
                            database.shown(), kRestore));
}

enum class Depth : std::uint8_t { kQuick, kWhole };

Result<void> check_pages(Database& database, Depth depth) {
  const auto rows = TRY(database.ask(
      {.sql = depth == Depth::kQuick ? "PRAGMA quick_check(1)" : "PRAGMA integrity_check(1)",
       .values = {}}));
  const std::string found = rows.empty() ? "no answer" : TRY(text_of(rows.front(), 0));
  if (found == "ok") return {};
  return refuse(fmt::format("{} is damaged ({}); {}", database.shown(), found, kRestore));
}

// SQLite takes what a last page lacks for zeros. With a journal beside it the file need not be
// whole.
Result<void> check_size(Database& database, const std::string& path, std::int64_t size) {
  struct stat journal{};
  if (stat((path + "-wal").c_str(), &journal) == 0 && journal.st_size > 0) return {};
  if (size % TRY(number(database, "PRAGMA page_size")) == 0) return {};
  return refuse(fmt::format("{} is damaged (it was cut off); {}", database.shown(), kRestore));
}

// Its size, or nothing when there is no such file.
Result<std::optional<std::int64_t>> look_at(const std::string& path, const std::string& shown) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return os_error("open store", shown);
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) return refuse(fmt::format("{} is no file; move it away", shown));
  if (info.st_size == 0)
    return refuse(fmt::format("{} is empty: it was cut off; {}", shown, kRestore));
  return info.st_size;
}

void remove_with_journals(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) unlink((path + suffix).c_str());
}

// Under another name first: a file of the right name is always whole.
Result<void> create(const std::string& path, const std::string& shown,
                    std::span<const Migration> known) {
  if (access((path + "-wal").c_str(), F_OK) == 0)
    return refuse(
        fmt::format("{0} is gone, but {0}-wal is there; bring it back, or {1}", shown, kRestore));
  const std::string unfinished = path + ".new";
  remove_with_journals(unfinished);
  TRY(linux::open_file(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  {
    Database database = TRY(Database::open(unfinished, shown, Access::kReadWrite));
    TRY_VOID(database.execute(fmt::format("PRAGMA application_id = {}", kApplicationId)));
    TRY_VOID(migrate(database, known));
  }
  if (rename(unfinished.c_str(), path.c_str()) != 0) return os_error("create store", shown);
  const auto folder = std::filesystem::path(path).parent_path();
  return linux::sync_directory(folder.empty() ? "." : folder.string());
}

}  // namespace

Result<Database> open_or_create(const std::string& path, const std::string& shown,
                                std::span<const Migration> known) {
  auto size = TRY(look_at(path, shown));
  if (!size) TRY_VOID(create(path, shown, known));
  Database database = TRY(Database::open(path, shown, Access::kReadWrite));
  TRY_VOID(check_owner(database));
  if (size) TRY_VOID(check_size(database, path, *size));
  if (size.value_or(0) <= kCheckedBytesMax) TRY_VOID(check_pages(database, Depth::kQuick));
  TRY_VOID(database.execute("PRAGMA journal_mode = WAL"));
  TRY_VOID(migrate(database, known));
  return database;
}

Result<StoreFileInfo> check_store_file(const std::string& path) {
  const auto size = TRY(look_at(path, path));
  if (!size) return make_error(ErrorCode::kNotFound, "check store", path + " does not exist");
  Database database = TRY(Database::open(path, path, Access::kUntouched));
  TRY_VOID(check_owner(database));
  TRY_VOID(check_size(database, path, *size));
  TRY_VOID(check_pages(database, Depth::kWhole));
  const auto applied = TRY(count_applied(database, migrations(Dialect::kSqlite)));
  return StoreFileInfo{.bytes = static_cast<std::uint64_t>(*size), .migrations = applied};
}

}  // namespace pons::store
