#include "state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/roles/profile.h"

namespace pons::supervisor {

namespace {

constexpr std::string_view kElsewhere =
    "; choose another with --state-dir, or run as a user who may write there";

Result<void> create_parents(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST)
      return os_error("create state directory", path.substr(0, at).append(kElsewhere));
  return {};
}

// A directory that only `owner` may enter. Never follows a link that someone put in its place.
Result<linux::UniqueFd> ensure_private_directory(const std::string& path, unsigned mode,
                                                 uid_t owner) {
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return os_error("create state directory", std::string(path).append(kElsewhere));
  auto directory = TRY(linux::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (fchmod(directory.get(), mode) != 0) return os_error("set rights of state directory", path);
  if (geteuid() == 0 && fchown(directory.get(), owner, owner) != 0)
    return os_error("set owner of state directory", path);
  return directory;
}

// A directory that is there already is taken only if it is ours to take: it was used by Pons
// before, or it is empty. Anything else (/tmp, somebody's home) would lose its owner and its
// rights.
Result<void> check_may_adopt(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISDIR(info.st_mode)) return {};  // refused where it is opened
  const auto refuse = [&](std::string_view why) {
    return make_error(ErrorCode::kConflict, "use state directory",
                      fmt::format("{} {}; choose one that is empty or does not exist", path, why));
  };
  if (info.st_uid != geteuid()) return refuse("belongs to another user");
  std::error_code error;
  const bool empty = std::filesystem::is_empty(path, error);
  if (error) return os_error("use state directory", path, error.value());
  if (!empty && access((path + "/run/pons.lock").c_str(), F_OK) != 0)
    return refuse("holds other things than Pons' state");
  return {};
}

// The lock file holds the pid of whoever has the lock, for the message to whoever comes second.
Result<linux::UniqueFd> take_lock(const std::string& state_dir) {
  const std::string path = state_dir + "/run/pons.lock";
  auto lock = TRY(linux::open_file(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return os_error("lock state directory", path);
    const std::string pid(trim(linux::read_file(path, 64).value_or("")));
    return make_error(
        ErrorCode::kConflict, "lock state directory",
        fmt::format(
            "Pons is already running on {} (pid {}); stop it with `pons down` or choose another "
            "--state-dir",
            state_dir, pid.empty() ? "unknown" : pid));
  }
  const std::string text = fmt::format("{}\n", getpid());
  if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), text.data(), text.size(), 0) < 0)
    return os_error("write lock file", path);
  return lock;
}

}  // namespace

Result<StateDir> StateDir::open(const std::string& path) {
  TRY_VOID(create_parents(path));
  TRY_VOID(check_may_adopt(path));
  const uid_t self = geteuid();
  // Others may pass through to their own folder, and see nothing on the way.
  TRY(ensure_private_directory(path, 0711, self));
  TRY(ensure_private_directory(path + "/run", 0700, self));
  auto lock = TRY(take_lock(path));
  for (const roles::Profile& profile : roles::profiles()) {
    const bool own_user = profile.capabilities == 0;
    TRY(ensure_private_directory(fmt::format("{}/{}", path, profile.name), 0700,
                                 own_user ? roles::uid_of(profile.role) : self));
  }
  return StateDir(path, std::move(lock));
}

Result<Secret> StateDir::ensure_admin_token() const {
  constexpr std::size_t kTokenLetters = 40;  // 200 bits
  constexpr std::size_t kFileBytesMax = 1024;
  if (access(admin_token_path().c_str(), F_OK) != 0)
    TRY_VOID(linux::write_file_atomically(admin_token_path(),
                                          "pons_" + random_text(kTokenLetters) + "\n", 0600));
  // One descriptor for all questions: what is checked is what is read.
  const auto file = TRY(linux::open_file(admin_token_path(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return os_error("read admin token", admin_token_path());
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return make_error(ErrorCode::kInvalid, "read admin token",
                      fmt::format("{} is not a file of this user; delete it to get a new token",
                                  admin_token_path()));
  if ((info.st_mode & 077) != 0)
    return make_error(
        ErrorCode::kInvalid, "read admin token",
        fmt::format("others can read {}; run `chmod 600` on it, or delete it to get a new token",
                    admin_token_path()));
  std::string text = TRY(linux::read_all(file.get(), kFileBytesMax));
  Secret token{std::string(trim(text))};
  wipe(text.data(), text.size());
  constexpr std::size_t kTokenBytesMin = 32;
  if (token.size() < kTokenBytesMin)
    return make_error(ErrorCode::kInvalid, "read admin token",
                      fmt::format("{} holds fewer than {} characters; delete it to get a new token",
                                  admin_token_path(), kTokenBytesMin));
  return token;
}

}  // namespace pons::supervisor
