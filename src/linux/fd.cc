#include "pons/linux/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

#include "pons/base/id.h"

namespace pons::linux {

void FdTraits::close(int fd) noexcept {
  ::close(fd);
}

Result<Pipe> create_pipe(int flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | flags) != 0) return os_error("create pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return os_error("duplicate descriptor");
  return copy;
}

Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return os_error("open", path);
  return fd;
}

Result<void> set_nonblocking(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) != 0)
    return os_error("set descriptor flags");
  return {};
}

Result<void> set_inheritable(int fd) {
  if (fcntl(fd, F_SETFD, 0) != 0) return os_error("set descriptor flags");
  return {};
}

Result<std::string> read_all(int fd, std::size_t bytes_max) {
  std::string text;
  for (;;) {
    const std::size_t old_size = text.size();
    if (old_size > bytes_max)
      return make_error(ErrorCode::kLimit, "read", fmt::format("more than {} bytes", bytes_max));
    text.resize(old_size + 4096);
    const ssize_t got = read(fd, text.data() + old_size, 4096);
    text.resize(old_size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return os_error("read");
  }
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd fd = TRY(open_file(path, O_RDONLY));
  auto text = read_all(fd.get(), bytes_max);
  if (!text)
    text.error().message = path + (text.error().message.empty() ? "" : ": ") + text.error().message;
  return text;
}

Result<void> write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t wrote = write(fd, data.data(), data.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return os_error("write");
    data.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return {};
}

Result<void> write_file_atomically(const std::string& path, std::string_view data, unsigned mode) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, random_text(8));
  // Created with its final mode: a secret is never readable by others, not even for a moment.
  const UniqueFd fd = TRY(open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  const auto give_up = [&](Error error) {
    unlink(temporary.c_str());
    error.message = path;
    return error;
  };
  if (auto written = write_all(fd.get(), data); !written) return give_up(written.error());
  if (fsync(fd.get()) != 0) return give_up(os_error("sync file"));
  if (rename(temporary.c_str(), path.c_str()) != 0) return give_up(os_error("replace file"));
  return {};
}

Result<void> sync_directory(const std::string& path) {
  const UniqueFd directory = TRY(open_file(path, O_RDONLY | O_DIRECTORY));
  if (fsync(directory.get()) != 0) return os_error("sync directory", path);
  return {};
}

}  // namespace pons::linux
