#pragma once

#include <deque>
#include <memory>
#include <string>

#include "fleet.h"

namespace pons::sandbox {

// Reads one job out of its cell, by pull.
class CellJobStream final : public JobStream {
 public:
  CellJobStream(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job, JobOffsets from);

  const std::string& job_id() const override { return job_; }
  Task<Result<std::optional<JobEvent>>> next(
      std::chrono::steady_clock::time_point deadline) override;

  // Takes in the answer to kStart or kRead; false when it cannot be one.
  bool accept(std::string_view payload, std::uint32_t bytes_max);
  // Puts the beginning before everything that was taken in so far.
  void announce_start() { waiting_.emplace_front(JobStarted{.pid = pid_}); }

 private:
  Task<Result<std::optional<JobEvent>>> finish(TimePoint deadline);
  JobInfo interrupted() const;

  Fleet& fleet_;
  std::shared_ptr<Sandbox> sandbox_;
  std::string job_;
  JobOffsets offsets_;
  std::deque<JobEvent> waiting_;
  std::uint32_t pid_ = 0;
  std::optional<cell::JobState> end_;
  bool over_ = false;
};

std::shared_ptr<Job> ensure_job(Fleet& fleet, Sandbox& sandbox, std::string_view name);
JobInfo job_info(const cell::JobState& state);
// Nothing of one that runs.
std::optional<Milliseconds> ended_ago(const cell::JobState& state);

// The error for an answer that is not kDone.
Error cell_error(const CellClient::Answer& answer, std::string_view job);

// Settles, once, how an ended job ended: names the outcome, and undoes or keeps what it changed.
// Goes on when nobody waits for it; `finished` of the job tells.
void settle_job(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, cell::JobState state);
// Settles the job when it ends, whoever follows it.
Task<> watch_job(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job);

// Sends bytes to the job's input from `offset` on; how far it got.
Task<Result<std::uint64_t>> send_input(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                       std::string job, std::uint64_t offset, std::string bytes,
                                       Duration stall_max);

}  // namespace pons::sandbox
