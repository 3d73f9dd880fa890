#pragma once

#include <memory>
#include <string>

#include "pons/linux/signals.h"
#include "sandbox_session.h"

namespace pons::cli {

struct FollowOptions {
  bool input = false;         // standard input goes to the job
  bool terminal = false;      // the job has a terminal: keys go to it as they are
  bool interrupt_job = true;  // a first Ctrl-C goes to the job; otherwise it leaves it
  sandbox::JobOffsets from;
  std::string if_left = "the job goes on";  // what to say when the person leaves it
};

// Blocks the signals that a person sends. Before the job is started, so that none gets lost
// between.
Result<linux::SignalFd> watch_person();

// Shows a job's output until its end and returns the exit status for it. Standard input, signals
// and the size of the terminal go to the job; the first Ctrl-C is a SIGINT to it and the second
// one leaves it. A stream that is cut is taken up again where it was.
Task<Result<int>> follow_job(Session& session, std::string sandbox,
                             std::unique_ptr<sandbox::JobStream> stream, linux::SignalFd& signals,
                             FollowOptions options);

// The exit status of a shell for it, and words on standard error where a number says too little.
int report_end(const sandbox::JobInfo& job);

}  // namespace pons::cli
