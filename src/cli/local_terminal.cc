#include "local_terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace pons::cli {

bool is_terminal_input() {
  return isatty(STDIN_FILENO) == 1;
}

bool input_is_piped() {
  struct stat status{};
  if (fstat(STDIN_FILENO, &status) != 0) return false;
  return S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode);
}

std::optional<sandbox::TerminalSize> terminal_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
      return sandbox::TerminalSize{.rows = size.ws_row, .columns = size.ws_col};
  }
  return std::nullopt;
}

Result<RawTerminal> RawTerminal::enter() {
  termios settings{};
  if (tcgetattr(STDIN_FILENO, &settings) != 0) return os_error("read terminal settings");
  RawTerminal terminal(settings);
  cfmakeraw(&settings);
  // What was typed ahead is kept: it is meant for the program that starts now.
  if (tcsetattr(STDIN_FILENO, TCSADRAIN, &settings) != 0) return os_error("set terminal to raw");
  return terminal;
}

RawTerminal::~RawTerminal() {
  if (saved_) tcsetattr(STDIN_FILENO, TCSADRAIN, &*saved_);
}

StandardStream::StandardStream(linux::Loop& loop, int fd) : fd_(fd) {
  if (auto watch = linux::Watch::create(loop, fd)) watch_ = std::move(*watch);
}

Task<> StandardStream::wait(short events) {
  while (watch_) {
    pollfd poll_fd{.fd = fd_, .events = events, .revents = 0};
    if (poll(&poll_fd, 1, 0) != 0) co_return;
    if (events == POLLIN) {
      co_await watch_->readable(kNever);
    } else {
      co_await watch_->writable(kNever);
    }
  }
}

Task<Result<std::string>> StandardStream::read(std::size_t bytes_max) {
  std::string bytes(bytes_max, '\0');
  for (;;) {
    co_await wait(POLLIN);
    const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
    if (got >= 0) {
      bytes.resize(static_cast<std::size_t>(got));
      co_return bytes;
    }
    // The terminal's other side is gone: nothing more can be typed.
    if (errno == EIO) co_return std::string();
    if (errno != EINTR && errno != EAGAIN) co_return os_error("read standard input");
  }
}

Task<Result<void>> StandardStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    co_await wait(POLLOUT);
    // A pipe that poll calls writable takes at least this much without blocking.
    const std::size_t size = watch_ ? std::min<std::size_t>(bytes.size(), PIPE_BUF) : bytes.size();
    const ssize_t sent = ::write(fd_, bytes.data(), size);
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) co_return os_error("write output");
  }
  co_return {};
}

}  // namespace pons::cli
