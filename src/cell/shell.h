#pragma once

#include "environment.h"
#include "launch.h"
#include "poller.h"
#include "pons/cell/protocol.h"

namespace pons::cell {

enum class ShellKind {
  kPlain,  // `sh -c LINE`
  kLogin,  // `/bin/bash -l -c LINE`: it has read its profiles
};

// A shell that has been started before there is a line for it, because starting takes longer than
// running most lines. It waits with "/" as its directory and is used once. It starts when nobody
// has wanted the sandbox for a moment, and is given up when nobody has used it for a while after
// the claim.
class WaitingShell {
 public:
  void set_up(Poller* poller, ShellKind kind, uint64_t now_ms);
  uint64_t next_timer() const { return due_ms_ < ends_ms_ ? due_ms_ : ends_ms_; }
  void run_timers(uint64_t now_ms);
  void on_claim(uint64_t now_ms) { ends_ms_ = now_ms + kShellKeptMs; }
  // Whoever is not there by now would only take time from the job.
  void on_job() { due_ms_ = UINT64_MAX; }

  // True when it waits, and also when there is none to wait for.
  bool is_settled() const { return state_ != State::kStarting; }
  void on_ready();
  // True when `pid` was the shell's.
  bool on_reaped(pid_t pid);

  struct Line {
    ShellKind kind;
    const User* user;
    Environment* environment;
    const char* directory;
    bool directory_is_a_wish;
    const char* line;
  };

  // For whom it waits; nobody's when it has not been started.
  const User& user() const { return user_; }

  // Runs the line in it. Returns its pid and hands over its streams, or returns 0: the line needs
  // what it does not have.
  pid_t take(const Line& line, Streams* streams);

 private:
  enum class State { kNone, kStarting, kWaiting };

  void start();
  void dismiss();
  void stop();

  State state_;
  ShellKind kind_;
  Poller* poller_;
  uint64_t due_ms_;   // UINT64_MAX: it has been started, or will not be
  uint64_t ends_ms_;  // UINT64_MAX: not yet claimed, or given up
  pid_t pid_;
  int script_;
  int ready_;
  size_t script_bytes_max_;
  Streams streams_;
  User user_;
};

// The script that makes a waiting shell behave as if it had been started for the line in this
// environment. 0 when it cannot be written: too long, or a name that no shell can export without a
// side effect. A login shell has read its profiles with `begun_with`, whose values must still hold.
size_t write_shell_script(const WaitingShell::Line& line, const Environment& begun_with, char* to,
                          size_t capacity);

}  // namespace pons::cell
