#pragma once

#include <initializer_list>
#include <optional>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::linux {

// Signals as something to read. Create it before the first thread: threads started later inherit
// the mask, and a signal that one thread does not block is delivered there and never read here.
class SignalFd {
 public:
  // Blocks the signals for the calling thread. They stay blocked when the object is gone: a pending
  // SIGTERM must not kill a process that is already cleaning up.
  static Result<SignalFd> create(std::initializer_list<int> signals);

  int fd() const { return fd_.get(); }
  // The next pending signal's number. Never blocks.
  std::optional<int> take();

 private:
  explicit SignalFd(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// A write to a closed socket becomes EPIPE instead of the end of the process.
void ignore_sigpipe();

// Default handlers and an empty mask: exec keeps ignored and blocked signals, and a program that
// starts with SIGTERM blocked cannot be stopped politely. Async-signal-safe.
void reset_signals();

}  // namespace pons::linux
