#pragma once

#include <termios.h>

#include <optional>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/sandbox/provider.h"

namespace pons::cli {

bool is_terminal_input();
// Standard input is a pipe, a socket or a file: something that was put there to be read.
bool input_is_piped();
std::optional<sandbox::TerminalSize> terminal_size();

// Standard input as the program behind it wants it: every key as it is typed. The destructor puts
// back what was before.
class RawTerminal {
 public:
  static Result<RawTerminal> enter();
  RawTerminal(RawTerminal&& other) noexcept : saved_(std::exchange(other.saved_, std::nullopt)) {}
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal();

 private:
  explicit RawTerminal(const termios& saved) : saved_(saved) {}
  std::optional<termios> saved_;
};

// One of the three standard descriptors. It stays in blocking mode, since others share it; no call
// here waits but by the loop, so that signals are heard meanwhile.
class StandardStream {
 public:
  StandardStream(linux::Loop& loop, int fd);

  // Empty at the end.
  Task<Result<std::string>> read(std::size_t bytes_max);
  Task<Result<void>> write(std::string_view bytes);

 private:
  Task<> wait(short events);

  int fd_;
  std::optional<linux::Watch> watch_;  // none for files, which are always ready
};

}  // namespace pons::cli
