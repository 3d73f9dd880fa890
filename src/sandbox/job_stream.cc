#include "job_stream.h"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "cell_request.h"
#include "pons/base/log.h"
#include "transactions.h"

namespace pons::sandbox {

namespace {

constexpr Milliseconds kReadWait = std::chrono::seconds(20);
constexpr Duration kReadGrace = std::chrono::seconds(5);
constexpr int kShellKilled = 128 + SIGKILL;

const char* name_of(cell::Step step) {
  static constexpr const char* kNames[] = {
      "start job",       "find user",  "make pipes", "make terminal", "fork",      "take identity",
      "enter directory", "set limits", "execute",    "signal",        "use input", "set hostname"};
  const auto index = static_cast<std::size_t>(step);
  return index < std::size(kNames) ? kNames[index] : kNames[0];
}

bool looks_killed(const cell::JobState& state) {
  return (state.ended == cell::Ended::kSignal && state.code == SIGKILL) ||
         (state.ended == cell::Ended::kExit && state.code == kShellKilled);
}

// Names the limits that a failed job met.
Task<> name_limits(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, const cell::JobState& state,
                   const Job& job, JobInfo& info) {
  const auto usage = co_await fleet.spawning().call(
      spawner_request(spawner::RequestKind::kUsage, sandbox->record.key), std::chrono::seconds(5));
  if (!usage) co_return;
  const LimitCounts now = LimitCounts::of(usage->reply.values);
  if (looks_killed(state) && !job.killed && now.oom_kills > job.before.oom_kills)
    info.outcome = Outcome::kOutOfMemory;
  info.note = limits_met(usage->reply.values, sandbox->record.spec.limits, job.before);
  sandbox->seen.raise_to(now);
}

Task<> settle(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, cell::JobState state,
              std::shared_ptr<Job> job) {
  JobInfo info = job_info(state);
  // Before anything is undone.
  if (info.outcome != Outcome::kExit || info.code != 0)
    co_await name_limits(fleet, sandbox, state, *job, info);
  const auto pending = sandbox->record.transactions.find(info.id);
  if (pending != sandbox->record.transactions.end()) {
    co_await end_transaction(fleet, sandbox, pending->second, info);
    sandbox->record.transactions.erase(info.id);
    sandbox->transaction_over.set();
    fleet.save(*sandbox);
  }
  job->result = std::move(info);
  job->finished.set();
}

// The sandbox's control group says EAGAIN, which reads as if to try again were all there is to do.
Error no_process_left() {
  return make_error(ErrorCode::kLimit, "start job",
                    "the sandbox has as many processes and threads as its limit \"pids\" allows; "
                    "end some of them, or create it with a higher limit");
}

}  // namespace

Error cell_error(const CellClient::Answer& answer, std::string_view job) {
  switch (answer.status) {
    case cell::Status::kNoSuchJob:
      return make_error(ErrorCode::kNotFound, "find job", fmt::format("there is no \"{}\"", job));
    case cell::Status::kTableFull:
      return make_error(ErrorCode::kLimit, "start job",
                        fmt::format("{} jobs run in this sandbox already; end some of them first",
                                    cell::kJobsMax));
    case cell::Status::kInputClosed:
      return make_error(ErrorCode::kConflict, "write input", "the job reads no more input");
    case cell::Status::kFailed: {
      if (answer.step == cell::Step::kFork && answer.os_error == EAGAIN) return no_process_left();
      Error error = os_error(name_of(answer.step), {}, answer.os_error);
      // "Not found" is kept for sandboxes, jobs and files that were named.
      if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kInvalid;
      return error;
    }
    case cell::Status::kDone:
    case cell::Status::kBadRequest:
    case cell::Status::kNotClaimed:
    case cell::Status::kOtherClaim:
      break;
  }
  return make_error(ErrorCode::kInvalid, "ask cell", "it refused the request");
}

namespace {

// Of the same clock as the cell's.
std::uint64_t now_ms() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<Milliseconds>(SystemClock().now().time_since_epoch()).count());
}

}  // namespace

std::optional<Milliseconds> ended_ago(const cell::JobState& state) {
  if (state.ended == cell::Ended::kRunning) return std::nullopt;
  const std::uint64_t now = now_ms();
  return Milliseconds(now > state.ended_ms ? now - state.ended_ms : 0);
}

JobInfo job_info(const cell::JobState& state) {
  static constexpr Outcome kOutcomes[] = {Outcome::kRunning, Outcome::kExit, Outcome::kSignal,
                                          Outcome::kTimeout, Outcome::kOutputLimit};
  JobInfo info{.id = std::string(job_name_of(state)),
               .outcome = kOutcomes[static_cast<std::size_t>(state.ended)],
               .code = state.code,
               .pid = state.pid,
               .cpu_usec = state.user_usec + state.system_usec,
               .output_bytes = state.output_end,
               .error_bytes = state.error_end};
  const std::uint64_t until = info.outcome == Outcome::kRunning ? now_ms() : state.ended_ms;
  constexpr std::uint64_t kLongest = 1ULL << 53;  // what every reader of JSON can hold
  if (until > state.started_ms)
    info.duration = Milliseconds(std::min(until - state.started_ms, kLongest));
  return info;
}

std::shared_ptr<Job> ensure_job(Fleet& fleet, Sandbox& sandbox, std::string_view name) {
  auto& job = sandbox.jobs[std::string(name)];
  if (job == nullptr) {
    job = std::make_shared<Job>(fleet.loop());
    // Counted whenever a job fails, so these are the counts at the job's beginning; what no job
    // failed of may be added to the next one that fails.
    job->before = sandbox.seen;
  }
  return job;
}

void settle_job(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, cell::JobState state) {
  const std::string name(job_name_of(state));
  const auto job = ensure_job(fleet, *sandbox, name);
  if (std::exchange(job->finishing, true)) return;
  sandbox->running.erase(name);
  sandbox->used = fleet.loop().now();
  fleet.spawn(settle(fleet, sandbox, state, job));
}

Task<> watch_job(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string name) {
  const auto job = ensure_job(fleet, *sandbox, name);
  cell::Read read{
      .output_offset = 0, .error_offset = 0, .wait_ms = kReadWait.count(), .bytes_max = 0};
  while (!job->finishing && !sandbox->gone.is_set()) {
    const auto answer = co_await fleet.ask(sandbox, read_request(name, read),
                                           fleet.loop().now() + kReadWait + kReadGrace);
    if (!answer && (answer.error().code == ErrorCode::kTimeout ||
                    answer.error().code == ErrorCode::kUnavailable)) {
      // Paused, or the spawner restarts: the job is still to be settled when it ends.
      co_await job->finished.wait(fleet.loop().now() + std::chrono::seconds(1));
      continue;
    }
    // A former warden was killed before it began the job, or the cell has made room for others.
    if (answer && answer->status == cell::Status::kNoSuchJob)
      co_await abandon_transaction(fleet, sandbox, name);
    if (!answer || answer->status != cell::Status::kDone) co_return;
    const auto state = parse_read_answer(
        answer->payload, {name, read.output_offset, read.error_offset, read.bytes_max});
    if (!state) {
      fleet.condemn(sandbox);
      co_return;
    }
    if (state->state.ended != cell::Ended::kRunning) {
      settle_job(fleet, sandbox, state->state);
      co_return;
    }
    // Asking from the end on wakes only for what is new. A job that floods its output is left to
    // run for a moment each time.
    read.output_offset = state->state.output_end;
    read.error_offset = state->state.error_end;
    co_await job->finished.wait(fleet.loop().now() + std::chrono::milliseconds(5));
  }
}

// ---- the stream

CellJobStream::CellJobStream(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job,
                             JobOffsets from)
    : fleet_(fleet), sandbox_(std::move(sandbox)), job_(std::move(job)), offsets_(from) {}

bool CellJobStream::accept(std::string_view payload, std::uint32_t bytes_max) {
  const auto answer =
      parse_read_answer(payload, {job_, offsets_.output, offsets_.error, bytes_max});
  if (!answer) return false;
  pid_ = answer->state.pid;
  const auto take = [&](Output::Stream stream, std::uint64_t& at, std::uint64_t offset,
                        std::string_view bytes) {
    if (!bytes.empty())
      waiting_.emplace_back(Output{
          .stream = stream, .offset = offset, .lost = offset - at, .bytes = std::string(bytes)});
    if (!bytes.empty()) at = offset + bytes.size();
  };
  take(Output::Stream::kOutput, offsets_.output, answer->output_offset, answer->output);
  take(Output::Stream::kError, offsets_.error, answer->error_offset, answer->error);
  if (answer->drained()) {
    end_ = answer->state;
    settle_job(fleet_, sandbox_, answer->state);
  }
  return true;
}

JobInfo CellJobStream::interrupted() const {
  return {.id = job_,
          .outcome = Outcome::kInterrupted,
          .output_bytes = offsets_.output,
          .error_bytes = offsets_.error,
          .note = fmt::format("the sandbox is gone: {}", sandbox_->end_reason)};
}

Task<Result<std::optional<JobEvent>>> CellJobStream::next(
    std::chrono::steady_clock::time_point deadline) {
  const Call call(fleet_.loop(), sandbox_);
  for (;;) {
    if (!waiting_.empty()) {
      JobEvent event = std::move(waiting_.front());
      waiting_.pop_front();
      co_return std::optional<JobEvent>(std::move(event));
    }
    if (over_) co_return std::optional<JobEvent>();
    if (end_) co_return co_await finish(deadline);
    const TimePoint now = fleet_.loop().now();
    if (now >= deadline)
      co_return make_error(ErrorCode::kTimeout, "follow job", "nothing happened meanwhile");
    const auto wait = std::clamp(std::chrono::duration_cast<Milliseconds>(deadline - now),
                                 Milliseconds{1}, kReadWait);
    const cell::Read read{.output_offset = offsets_.output,
                          .error_offset = offsets_.error,
                          .wait_ms = static_cast<std::uint32_t>(wait.count()),
                          .bytes_max = kReadBytesMax};
    const auto answer =
        co_await fleet_.ask(sandbox_, read_request(job_, read), now + wait + kReadGrace);
    if (sandbox_->gone.is_set()) {
      over_ = true;
      co_return std::optional<JobEvent>(interrupted());
    }
    if (!answer) co_return answer.error();
    if (answer->status != cell::Status::kDone) co_return cell_error(*answer, job_);
    if (!accept(answer->payload, kReadBytesMax)) fleet_.condemn(sandbox_);
  }
}

Task<Result<std::optional<JobEvent>>> CellJobStream::finish(TimePoint deadline) {
  const auto job = ensure_job(fleet_, *sandbox_, job_);
  if (co_await job->finished.wait(deadline) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "follow job", "its end is being settled");
  over_ = true;
  co_return std::optional<JobEvent>(job->result ? *job->result : interrupted());
}

Task<Result<std::uint64_t>> send_input(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                       std::string job, std::uint64_t offset, std::string bytes,
                                       Duration stall_max) {
  const std::uint64_t begin = offset;
  TimePoint stalled_at = fleet.loop().now() + stall_max;
  while (offset - begin < bytes.size()) {
    const std::string_view piece =
        std::string_view(bytes).substr(offset - begin).substr(0, kWriteBytesMax);
    CO_TRY(const auto answer, co_await fleet.ask(sandbox, write_request(job, offset, piece),
                                                 fleet.loop().now() + stall_max));
    if (answer.status != cell::Status::kDone) co_return cell_error(answer, job);
    const auto taken = parse_write_answer(answer.payload, offset, piece.size());
    if (!taken) co_return fleet.condemn(sandbox);
    if (*taken > offset) stalled_at = fleet.loop().now() + stall_max;
    if (fleet.loop().now() >= stalled_at)
      co_return make_error(ErrorCode::kTimeout, "write input", "the job does not read its input");
    if (*taken == offset) co_await fleet.loop().sleep_for(std::chrono::milliseconds(20));
    offset = *taken;
  }
  co_return offset;
}

}  // namespace pons::sandbox
