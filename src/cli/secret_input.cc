#include "secret_input.h"

#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <optional>
#include <string>

#include <fmt/format.h>

#include "local_terminal.h"
#include "pons/linux/fd.h"
#include "pons/linux/signals.h"

namespace pons::cli {

namespace {

constexpr std::size_t kSecretBytesMax = 64 * 1024;

// Puts the echo back whatever happens.
class SilentTerminal {
 public:
  static Result<SilentTerminal> enter() {
    termios settings{};
    if (tcgetattr(STDIN_FILENO, &settings) != 0) return os_error("read terminal settings");
    SilentTerminal silent(settings);
    settings.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings) != 0) return os_error("turn off echo");
    return silent;
  }
  SilentTerminal(SilentTerminal&& other) noexcept
      : saved_(std::exchange(other.saved_, std::nullopt)) {}
  SilentTerminal& operator=(SilentTerminal&&) = delete;
  ~SilentTerminal() {
    if (!saved_) return;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &*saved_);
    fmt::print(stderr, "\n");
  }

 private:
  explicit SilentTerminal(const termios& saved) : saved_(saved) {}
  std::optional<termios> saved_;
};

// One line. Ctrl-C must not end the program while the echo is off.
Result<std::string> read_typed_line() {
  auto signals = TRY(linux::SignalFd::create({SIGINT, SIGTERM, SIGHUP}));
  const auto silent = TRY(SilentTerminal::enter());
  pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals.fd(), .events = POLLIN}};
  if (poll(ready, std::size(ready), -1) < 0) return os_error("wait for input");
  if (signals.take())
    return make_error(ErrorCode::kUnavailable, "read secret", "interrupted; nothing was changed");
  std::string line(4096, '\0');  // what a terminal gives at most
  const ssize_t size = read(STDIN_FILENO, line.data(), line.size());
  if (size < 0) return os_error("read from the terminal");
  line.resize(static_cast<std::size_t>(size));
  return line;
}

}  // namespace

Result<Secret> read_secret(std::string_view prompt) {
  const bool is_typed = is_terminal_input();
  if (is_typed) fmt::print(stderr, "{}", prompt);
  std::string text =
      is_typed ? TRY(read_typed_line()) : TRY(linux::read_all(STDIN_FILENO, kSecretBytesMax));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty())
    return make_error(ErrorCode::kInvalid, "read secret", "no value was given on standard input");
  return Secret(std::move(text));
}

}  // namespace pons::cli
