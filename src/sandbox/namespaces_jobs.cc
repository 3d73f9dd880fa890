// The jobs of NamespacesProvider.

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "cell_request.h"
#include "job_stream.h"
#include "limit_rules.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "transactions.h"

namespace pons::sandbox {

namespace {

// A short command is over by then and needs no second question; a long one is not held up.
constexpr std::uint32_t kFirstWaitMs = 20;
constexpr Duration kAnswerTime = std::chrono::seconds(10);
constexpr Duration kInputStall = std::chrono::seconds(30);
constexpr std::size_t kInputBytesMax = 16ULL << 20;
constexpr Duration kTransactionWait = std::chrono::seconds(10);

Result<StartWords> start_words(const JobSpec& job) {
  if (job.argv.empty() == job.shell_line.empty())
    return make_error(ErrorCode::kInvalid, "start job",
                      "give either argv or shell_line, and not both");
  if (job.input.size() > kInputBytesMax)
    return make_error(ErrorCode::kLimit, "start job",
                      fmt::format("input has {} bytes and may have {}; write a file first",
                                  job.input.size(), kInputBytesMax));
  if (job.label.size() > kJobLabelBytesMax)
    return make_error(
        ErrorCode::kLimit, "start job",
        fmt::format("label has {} bytes and may have {}", job.label.size(), kJobLabelBytesMax));
  if (job.timeout.count() < 0)
    return make_error(ErrorCode::kInvalid, "start job", "timeout must not be negative");
  StartWords words{.job = job.id,
                   .user = job.user,
                   .directory = job.directory,
                   .argv = job.shell_line.empty() ? job.argv : std::vector{job.shell_line},
                   .environment = job.environment};
  cell::Start& start = words.numbers;
  if (!job.shell_line.empty()) start.flags |= cell::kShellLine;
  if (job.terminal) {
    start.flags |= cell::kTerminal;
    start.rows = job.terminal->rows;
    start.columns = job.terminal->columns;
  }
  if (job.input_open || !job.input.empty()) start.flags |= cell::kInputOpen;
  if (job.kill_at_timeout) start.flags |= cell::kKillAtTimeout;
  start.timeout_ms = static_cast<std::uint64_t>(job.timeout.count());
  start.output_bytes_max = job.output_bytes_max;
  start.open_files_max = job.open_files_max;
  start.file_bytes_max = job.file_bytes_max;
  const bool answers_at_once = (start.flags & cell::kInputOpen) != 0 || job.announce_start;
  start.wait_ms = answers_at_once ? 0 : kFirstWaitMs;
  return words;
}

// The input that came with the job. It may be more than the job reads before it writes, so nobody
// waits for it.
Task<> feed(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Job> job,
            std::string name, std::string input, bool stays_open) {
  const auto guard = co_await job->input_lock.take("write input", kNever);
  CHECK(guard.has_value());
  std::uint64_t offset = 0;
  while (offset < input.size() && !job->finishing && !sandbox->gone.is_set()) {
    const auto sent = co_await send_input(fleet, sandbox, name, offset,
                                          input.substr(offset, kWriteBytesMax), kInputStall);
    if (sent) {
      offset = *sent;
    } else if (sent.error().code != ErrorCode::kTimeout) {
      co_return;  // it ended, or reads no more
    }
  }
  job->input_offset = offset;
  if (!stays_open && !sandbox->gone.is_set())
    (void)co_await fleet.ask(sandbox, plain_request(cell::Op::kCloseInput, name),
                             fleet.loop().now() + kAnswerTime);
}

Task<Result<void>> ask_simply(Fleet& fleet, std::string id, std::string job, std::string request) {
  CO_TRY(const auto call, co_await fleet.enter(id));
  CO_TRY(const auto answer,
         co_await fleet.ask(call.sandbox(), std::move(request), fleet.loop().now() + kAnswerTime));
  if (answer.status != cell::Status::kDone) co_return cell_error(answer, job);
  co_return {};
}

// Undoing one would undo what another did meanwhile, though that one has told its caller that all
// is well. So they follow each other.
Task<Result<void>> wait_for_others(Fleet& fleet, Sandbox& sandbox, std::string job) {
  const TimePoint deadline = fleet.loop().now() + kTransactionWait;
  for (;;) {
    std::string other = sandbox.transaction_beginning;
    for (const auto& [name, pending] : sandbox.record.transactions)
      if (name != job) other = name;
    if (other.empty() || other == job) co_return {};
    sandbox.transaction_over.reset();
    if (co_await sandbox.transaction_over.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(
          ErrorCode::kConflict, "begin transaction",
          fmt::format("the transaction of the job \"{}\" is not over; wait for its "
                      "end, or use a sandbox of its own",
                      other));
  }
}

// True for one that this warden started, or an earlier one, whatever became of it.
Task<Result<bool>> was_started(Fleet& fleet, std::shared_ptr<Sandbox> sandbox, std::string job) {
  const auto known = sandbox->jobs.find(job);
  if (known != sandbox->jobs.end() && known->second->input_begun) co_return true;
  if (!sandbox->adopted) co_return false;
  CO_TRY(const auto jobs, co_await fleet.list_cell_jobs(sandbox));
  co_return std::ranges::find(jobs, std::string_view(job), job_name_of) != jobs.end();
}

Task<Result<void>> begin_transaction(Fleet& fleet, std::shared_ptr<Sandbox> sandbox,
                                     const JobSpec& job) {
  if (sandbox->record.transactions.contains(job.id)) co_return {};
  CO_TRY(const bool started, co_await was_started(fleet, sandbox, job.id));
  if (started) co_return {};
  CO_TRY_VOID(co_await wait_for_others(fleet, *sandbox, job.id));
  struct Beginning {
    Sandbox& sandbox;
    ~Beginning() {
      sandbox.transaction_beginning.clear();
      sandbox.transaction_over.set();
    }
  };
  sandbox->transaction_beginning = job.id;
  const Beginning beginning{*sandbox};
  const std::string checkpoint = "\x01" + job.id;
  auto taken = co_await take_checkpoint(fleet, sandbox, checkpoint);
  if (!taken) {
    // A file that is missing somewhere below is not a sandbox that is missing.
    Error error = std::move(taken).error();
    if (error.code == ErrorCode::kNotFound && !sandbox->gone.is_set()) error.code = ErrorCode::kIo;
    co_return error;
  }
  // Asked for twice at once, it may have begun and ended meanwhile.
  const auto known = sandbox->jobs.find(job.id);
  if (known != sandbox->jobs.end() && known->second->input_begun) {
    if (!sandbox->record.transactions.contains(job.id))
      (void)co_await commit_checkpoint(fleet, sandbox, checkpoint);
    co_return {};
  }
  sandbox->record.transactions[job.id] = {.checkpoint = checkpoint, .kind = job.transaction};
  fleet.save(*sandbox);
  co_return {};
}

// What the cell has made room for is forgotten here too.
Task<> forget_old_jobs(Fleet& fleet, std::shared_ptr<Sandbox> sandbox) {
  (void)co_await fleet.list_cell_jobs(std::move(sandbox));
}

}  // namespace

Task<Result<std::unique_ptr<JobStream>>> NamespacesProvider::execute(std::string id, JobSpec job) {
  if (job.id.empty()) job.id = "job-" + random_text(20);
  CO_TRY_VOID(check_job_id(job.id));
  CO_TRY(auto words, start_words(job));
  CO_TRY(auto request, start_request(words));
  CO_TRY(const auto call, co_await fleet_->enter(id));
  const std::shared_ptr<Sandbox> sandbox = call.sandbox();
  if (job.transaction != Transaction::kNone)
    CO_TRY_VOID(co_await begin_transaction(*fleet_, sandbox, job));
  const auto known = ensure_job(*fleet_, *sandbox, job.id);
  if (sandbox->jobs.size() % (2 * cell::kJobsMax) == 0)
    fleet_->spawn(forget_old_jobs(*fleet_, sandbox));
  sandbox->shell_used = true;
  auto answer = co_await fleet_->ask(
      sandbox, std::move(request),
      fleet_->loop().now() + std::chrono::milliseconds(kFirstWaitMs) + kAnswerTime);
  if (!answer || answer->status != cell::Status::kDone) {
    if (!known->finishing) sandbox->jobs.erase(job.id);
    // Without an answer the job may run, and its transaction with it.
    if (answer && job.transaction != Transaction::kNone && !sandbox->gone.is_set())
      co_await abandon_transaction(*fleet_, sandbox, job.id);
    if (!answer && job.transaction != Transaction::kNone && !sandbox->gone.is_set())
      fleet_->spawn(watch_job(*fleet_, sandbox, job.id));
    co_return answer ? cell_error(*answer, job.id) : answer.error();
  }
  sandbox->running.insert(job.id);
  fleet_->counts().jobs.add();
  auto stream = std::make_unique<CellJobStream>(*fleet_, sandbox, job.id, JobOffsets{});
  if (!stream->accept(answer->payload, kReadBytesMax)) co_return fleet_->condemn(sandbox);
  if (job.announce_start) stream->announce_start();
  if (!std::exchange(known->input_begun, true)) {
    known->label = std::move(job.label);
    if (!job.input.empty())
      fleet_->spawn(feed(*fleet_, sandbox, known, job.id, job.input, job.input_open));
    else
      known->input_offset = std::nullopt;
    if (job.transaction != Transaction::kNone) fleet_->spawn(watch_job(*fleet_, sandbox, job.id));
  }
  co_return std::unique_ptr<JobStream>(std::move(stream));
}

Task<Result<std::unique_ptr<JobStream>>> NamespacesProvider::attach(std::string id, std::string job,
                                                                    JobOffsets from) {
  CO_TRY_VOID(check_job_id(job));
  CO_TRY(const auto call, co_await fleet_->enter(id));
  CO_TRY(const auto jobs, co_await fleet_->list_cell_jobs(call.sandbox()));
  const auto found = std::ranges::find(jobs, std::string_view(job), job_name_of);
  if (found == jobs.end())
    co_return make_error(ErrorCode::kNotFound, "find job", fmt::format("there is no \"{}\"", job));
  if (from.output > found->output_end || from.error > found->error_end)
    co_return make_error(ErrorCode::kInvalid, "follow job",
                         fmt::format("it has written {} and {} bytes so far, fewer than asked for",
                                     found->output_end, found->error_end));
  co_return std::unique_ptr<JobStream>(
      std::make_unique<CellJobStream>(*fleet_, call.sandbox(), job, from));
}

Task<Result<std::vector<JobInfo>>> NamespacesProvider::list_jobs(std::string id) {
  CO_TRY(const auto call, co_await fleet_->enter(id));
  CO_TRY(const auto states, co_await fleet_->list_cell_jobs(call.sandbox()));
  std::vector<JobInfo> jobs;
  for (const cell::JobState& state : states) {
    if (job_name_of(state).starts_with('\x01')) continue;
    if (state.ended != cell::Ended::kRunning) settle_job(*fleet_, call.sandbox(), state);
    const auto known = call->jobs.find(job_name_of(state));
    const bool settled = known != call->jobs.end() && known->second->result;
    jobs.push_back(settled ? *known->second->result : job_info(state));
    if (known != call->jobs.end()) jobs.back().label = known->second->label;
    jobs.back().ended_ago = ended_ago(state);
  }
  co_return jobs;
}

Task<Result<void>> NamespacesProvider::write_input(std::string id, std::string job,
                                                   std::string bytes) {
  CO_TRY_VOID(check_job_id(job));
  if (bytes.empty()) co_return {};
  CO_TRY(const auto call, co_await fleet_->enter(id));
  if (!call->jobs.contains(job)) {
    CO_TRY(const auto jobs, co_await fleet_->list_cell_jobs(call.sandbox()));
    if (std::ranges::find(jobs, std::string_view(job), job_name_of) == jobs.end())
      co_return make_error(ErrorCode::kNotFound, "find job",
                           fmt::format("there is no \"{}\"", job));
  }
  const auto known = ensure_job(*fleet_, *call, job);
  CO_TRY(const auto guard,
         co_await known->input_lock.take("write input", fleet_->loop().now() + kInputStall));
  if (!known->input_offset) {
    CO_TRY(const auto jobs, co_await fleet_->list_cell_jobs(call.sandbox()));
    const auto found = std::ranges::find(jobs, std::string_view(job), job_name_of);
    if (found == jobs.end())
      co_return make_error(ErrorCode::kNotFound, "find job",
                           fmt::format("there is no \"{}\"", job));
    known->input_offset = found->input_taken;
  }
  // A lost answer leaves it open how far the job got; the next call asks the cell.
  const std::uint64_t offset = *std::exchange(known->input_offset, std::nullopt);
  auto sent =
      co_await send_input(*fleet_, call.sandbox(), job, offset, std::move(bytes), kInputStall);
  if (!sent) {
    if (sent.error().code == ErrorCode::kTimeout)
      sent.error().message = "the job does not read its input; try again later";
    co_return sent.error();
  }
  known->input_offset = *sent;
  co_return {};
}

Task<Result<void>> NamespacesProvider::close_input(std::string id, std::string job) {
  CO_TRY_VOID(check_job_id(job));
  co_return co_await ask_simply(*fleet_, std::move(id), job,
                                plain_request(cell::Op::kCloseInput, job));
}

Task<Result<void>> NamespacesProvider::signal(std::string id, std::string job, int number) {
  CO_TRY_VOID(check_job_id(job));
  if (number < 1 || number > 64)
    co_return make_error(ErrorCode::kInvalid, "signal job", "a signal is a number from 1 to 64");
  CO_TRY(const auto call, co_await fleet_->enter(id));
  if (number == SIGKILL)
    if (const auto known = call->jobs.find(job); known != call->jobs.end())
      known->second->killed = true;
  co_return co_await ask_simply(
      *fleet_, std::move(id), job,
      signal_request(job, {.number = number, .reach = cell::Reach::kGroup}));
}

Task<Result<void>> NamespacesProvider::kill(std::string id, std::string job) {
  CO_TRY_VOID(check_job_id(job));
  CO_TRY(const auto call, co_await fleet_->enter(id));
  if (const auto known = call->jobs.find(job); known != call->jobs.end())
    known->second->killed = true;
  co_return co_await ask_simply(
      *fleet_, std::move(id), job,
      signal_request(job, {.number = SIGKILL, .reach = cell::Reach::kJob}));
}

Task<Result<void>> NamespacesProvider::resize(std::string id, std::string job, TerminalSize size) {
  CO_TRY_VOID(check_job_id(job));
  co_return co_await ask_simply(*fleet_, std::move(id), job,
                                resize_request(job, {.rows = size.rows, .columns = size.columns}));
}

}  // namespace pons::sandbox
