#pragma once

#include "connections.h"
#include "environment.h"
#include "jobs.h"
#include "request.h"
#include "shell.h"

namespace pons::cell {

// PID 1 of a sandbox. Obeys whoever connects to its listening socket and nobody else. All zero is
// the state before run(); the object stands in BSS and costs memory as it is used.
class Cell {
 public:
  // Never returns, except with an exit code when it cannot begin.
  int run(int listener, ShellKind shell);

 private:
  bool set_up(int listener);
  void handle(const epoll_event& event);
  void serve(uint32_t connection);
  void obey(uint32_t connection, const Request& request, const char* message, size_t size);
  void claim(Answer* answer, const Request& request, const char* message, size_t size);
  void start(Answer* answer, const Request& request);
  Failure launch(Job* job, const Request& request);
  void wait_for_news(Answer* answer, Job* job, const Read& read);
  void write_input(Answer* answer, Job* job, const Request& request);
  void signal(Answer* answer, const Job& job, const Signal& signal);
  void resize(Answer* answer, const Job& job, const Resize& resize);
  void reap();

  // What is used by every cell comes first, side by side, and what has room for much comes last: an
  // idle cell has few pages.
  Poller poller_;
  WaitingShell shell_;
  int listener_;
  int signals_;
  int empty_input_;
  bool more_to_reap_;

  bool started_any_;  // a job

  bool claimed_;
  // These point into claim_message_.
  const char* claim_user_;
  const char* claim_directory_;
  StringList claim_environment_;
  size_t claim_size_;

  Connections connections_;
  char claim_message_[kMessageBytesMax];
  char message_[kMessageBytesMax];
  Environment environment_;
  char* argv_[kArgumentsMax + 4];
  char directory_[4096];
  Jobs jobs_;
};

}  // namespace pons::cell
