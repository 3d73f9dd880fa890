#include "file_copier.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "terminal.h"

namespace pons::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kStep = "copy files";
constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::size_t kDepthMax = 256;
constexpr std::uint64_t kFilesMax = 10'000'000;
constexpr unsigned kPermissions = 0777;
constexpr Duration kProgressTime = std::chrono::milliseconds(100);

class LocalBytes final : public sandbox::ByteSource {
 public:
  LocalBytes(FileCopier& copier, linux::UniqueFd file) : copier_(copier), file_(std::move(file)) {}
  Task<Result<std::string>> next() override {
    std::string piece(kPieceBytes, '\0');
    for (;;) {
      const ssize_t got = read(file_.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) co_return os_error("read local file");
      piece.resize(static_cast<std::size_t>(got));
      copier_.add(piece.size());
      co_return piece;
    }
  }

 private:
  FileCopier& copier_;
  linux::UniqueFd file_;
};

Result<unsigned> mode_of(int file) {
  struct stat status{};
  if (fstat(file, &status) != 0) return os_error("look at local file");
  return S_ISREG(status.st_mode) ? status.st_mode & kPermissions : 0644U;
}

std::string join(const std::string& directory, const std::string& name) {
  return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

}  // namespace

// One to be read inside, and where its entries go here.
struct FileCopier::Directory {
  std::string from;
  linux::UniqueFd to;
  std::size_t depth = 0;
};

FileCopier::FileCopier(Session& session, std::string sandbox, std::string user)
    : session_(session),
      sandbox_(std::move(sandbox)),
      user_(std::move(user)),
      show_progress_(isatty(STDERR_FILENO) == 1 && !session.common.json) {}

void FileCopier::add(std::size_t bytes) {
  count_.bytes += bytes;
  const TimePoint now = std::chrono::steady_clock::now();
  if (!show_progress_ || now - shown_ < kProgressTime) return;
  shown_ = now;
  fmt::print(stderr, "\r{} files, {}\x1b[K", count_.files, human_bytes(count_.bytes));
}

void FileCopier::end_progress() {
  if (show_progress_ && shown_ != TimePoint{}) fmt::print(stderr, "\r\x1b[K");
}

Result<std::optional<std::string>> entry_name(std::string_view directory, std::string_view path) {
  const auto trim_end = [](std::string_view text) {
    while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
    return text;
  };
  directory = trim_end(directory);
  if (trim_end(path) == directory) return std::nullopt;
  std::string_view name = path;
  bool below = name.starts_with(directory);
  if (below) {
    name.remove_prefix(directory.size());
    if (directory != "/") below = name.starts_with('/');
    if (below && directory != "/") name.remove_prefix(1);
  }
  if (!below || name.empty() || name == "." || name == ".." || name.contains('/') ||
      name.contains('\0'))
    return make_error(ErrorCode::kInvalid, kStep,
                      fmt::format("the sandbox lists \"{}\" as a file in \"{}\"; nothing of that "
                                  "directory is copied",
                                  path, directory));
  return std::string(name);
}

// ---- into the sandbox

Task<Result<void>> FileCopier::upload_file(linux::UniqueFd from, std::string to) {
  CO_TRY(const unsigned mode, mode_of(from.get()));
  CO_TRY_VOID(
      co_await session_.provider.write_file(sandbox_, std::move(to), {.mode = mode, .user = user_},
                                            std::make_unique<LocalBytes>(*this, std::move(from))));
  ++count_.files;
  co_return {};
}

Task<Result<void>> FileCopier::upload_tree(std::string from, std::string to) {
  CO_TRY_VOID(co_await session_.provider.make_directory(sandbox_, to, user_, ""));
  std::error_code error;
  auto entries = fs::recursive_directory_iterator(from, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const std::string path = entries->path();
    const std::string target = join(to, path.substr(from.size() + (from.ends_with('/') ? 0 : 1)));
    const auto kind = entries->symlink_status(error).type();
    if (error) break;
    if (kind == fs::file_type::directory) {
      CO_TRY_VOID(co_await session_.provider.make_directory(sandbox_, target, user_, ""));
    } else if (kind == fs::file_type::regular) {
      CO_TRY(auto file, linux::open_file(path, O_RDONLY | O_NOFOLLOW));
      CO_TRY_VOID(co_await upload_file(std::move(file), target));
    } else {
      ++count_.skipped;
    }
  }
  if (error) co_return os_error(kStep, from, error.value());
  co_return {};
}

// ---- out of the sandbox

Task<Result<void>> FileCopier::download_file(std::string from, int to) {
  CO_TRY(auto bytes, co_await session_.provider.read_file(sandbox_, std::move(from), user_, 0, 0));
  for (;;) {
    CO_TRY(const std::string piece, co_await bytes->next());
    if (piece.empty()) break;
    CO_TRY_VOID(linux::write_all(to, piece));
    add(piece.size());
  }
  ++count_.files;
  co_return {};
}

Task<Result<void>> FileCopier::download_tree(std::string from, std::string to) {
  if (mkdir(to.c_str(), 0777) != 0 && errno != EEXIST) co_return os_error("make directory", to);
  CO_TRY(auto root, linux::open_file(to, O_RDONLY | O_DIRECTORY));
  std::vector<Directory> waiting;
  waiting.push_back({.from = std::move(from), .to = std::move(root)});
  while (!waiting.empty()) {
    Directory next = std::move(waiting.back());
    waiting.pop_back();
    CO_TRY_VOID(co_await download_directory(std::move(next), waiting));
  }
  co_return {};
}

Task<Result<void>> FileCopier::download_directory(Directory directory,
                                                  std::vector<Directory>& more) {
  if (directory.depth > kDepthMax)
    co_return make_error(ErrorCode::kLimit, kStep,
                         fmt::format("directories are nested deeper than {}", kDepthMax));
  CO_TRY(const auto entries,
         co_await session_.provider.list_files(sandbox_, directory.from, user_, 1));
  std::vector<std::pair<const sandbox::FileInfo*, std::string>> named;
  for (const auto& entry : entries) {
    CO_TRY(auto name, entry_name(directory.from, entry.path));
    if (name) named.emplace_back(&entry, std::move(*name));
  }
  for (const auto& [entry, name] : named) {
    if (count_.files + count_.skipped >= kFilesMax)
      co_return make_error(ErrorCode::kLimit, kStep, "there are too many files");
    if (entry->kind == sandbox::FileKind::kDirectory) {
      if (mkdirat(directory.to.get(), name.c_str(), 0777) != 0 && errno != EEXIST)
        co_return os_error("make directory", name);
      linux::UniqueFd below(openat(directory.to.get(), name.c_str(),
                                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!below) co_return os_error("open directory", name);
      more.push_back({.from = join(directory.from, name),
                      .to = std::move(below),
                      .depth = directory.depth + 1});
    } else if (entry->kind == sandbox::FileKind::kFile) {
      CO_TRY_VOID(co_await download_entry(*entry, name, directory.to.get()));
    } else {
      ++count_.skipped;
    }
  }
  co_return {};
}

Task<Result<void>> FileCopier::download_entry(const sandbox::FileInfo& entry,
                                              const std::string& name, int directory) {
  // The name has no slash and a link is not followed: the file is in this directory or nowhere.
  // O_NONBLOCK: a pipe that lies there must not hold us up.
  linux::UniqueFd file(openat(directory, name.c_str(),
                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                              entry.mode & kPermissions & ~0022U));
  if (!file) co_return os_error("write local file", name);
  co_return co_await download_file(entry.path, file.get());
}

}  // namespace pons::cli
