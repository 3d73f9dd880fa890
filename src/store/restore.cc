#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "pons/linux/fd.h"
#include "pons/store/store_file.h"

namespace pons::store {

namespace {

constexpr const char* kStep = "restore store";
constexpr std::size_t kPieceBytes = 1 << 20;

// The folder belongs to a role, whose last process may have left anything there: names are made
// anew, and links are not followed.
Result<void> copy_file(const std::string& from, const std::string& to, uid_t owner) {
  const auto source = TRY(linux::open_file(from, O_RDONLY));
  if (unlink(to.c_str()) != 0 && errno != ENOENT) return os_error(kStep, to);
  const auto target = TRY(linux::open_file(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (owner != geteuid() && fchown(target.get(), owner, owner) != 0) return os_error(kStep, to);
  std::string piece(kPieceBytes, '\0');
  for (;;) {
    const ssize_t got = read(source.get(), piece.data(), piece.size());
    if (got < 0) return os_error(kStep, from);
    if (got == 0) break;
    TRY_VOID(linux::write_all(target.get(),
                              std::string_view(piece).substr(0, static_cast<std::size_t>(got))));
  }
  if (fsync(target.get()) != 0) return os_error(kStep, to);
  return {};
}

// A second name for the file: the first one leads to it until the new file takes its place.
Result<std::string> keep_aside(const std::string& path) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string first = fmt::format("{}.before-{:%Y%m%dT%H%M%SZ}", path, fmt::gmtime(now));
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::string name = i == 0 ? first : fmt::format("{}-{}", first, i);
    if (link(path.c_str(), name.c_str()) == 0) return name;
    if (errno == ENOENT) return std::string();
    if (errno != EEXIST) return os_error(kStep, name);
  }
  return make_error(ErrorCode::kConflict, kStep, first + " exists already");
}

// A journal must never lie beside a file that is not its own: SQLite would take it for a part of
// it.
Result<void> move_journals(const std::string& path, const std::string& kept) {
  for (const char* suffix : {"-wal", "-journal"}) {
    const std::string journal = path + suffix;
    const std::string to = kept.empty() ? fmt::format("{}.without-store", journal) : kept + suffix;
    if (rename(journal.c_str(), to.c_str()) != 0 && errno != ENOENT)
      return os_error(kStep, journal);
  }
  unlink((path + "-shm").c_str());
  return {};
}

}  // namespace

Result<std::string> restore_store_file(const std::string& from, const std::string& to,
                                       uid_t owner) {
  TRY(check_store_file(from));
  const std::string incoming = to + ".restored";
  if (auto copied = copy_file(from, incoming, owner); !copied) {
    unlink(incoming.c_str());
    return copied.error();
  }
  std::string kept = TRY(keep_aside(to));
  TRY_VOID(move_journals(to, kept));
  if (rename(incoming.c_str(), to.c_str()) != 0) return os_error(kStep, to);
  TRY_VOID(linux::sync_directory(std::filesystem::path(to).parent_path()));
  return kept;
}

}  // namespace pons::store
