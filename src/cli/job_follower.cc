#include "job_follower.h"

#include <unistd.h>

#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "local_terminal.h"
#include "pons/base/text.h"
#include "pons/sandbox/wire.h"
#include "terminal.h"

namespace pons::cli {

namespace {

using sandbox::JobEvent;
using sandbox::JobInfo;
using sandbox::Output;

constexpr int kSignalBase = 128;
constexpr std::size_t kInputPiece = 64 * 1024;
constexpr int kAttachTries = 60;
constexpr Duration kAttachPause = std::chrono::milliseconds(500);

// Nobody there, as opposed to somebody who says no.
bool is_absent(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.os_error == ENOENT ||
         error.os_error == ECONNREFUSED;
}

class Follower {
 public:
  Follower(Session& session, std::string sandbox, std::unique_ptr<sandbox::JobStream> stream,
           linux::SignalFd& signals, FollowOptions options)
      : session_(session),
        sandbox_(std::move(sandbox)),
        stream_(std::move(stream)),
        job_(stream_->job_id()),
        signals_(signals),
        options_(std::move(options)),
        at_(options_.from),
        output_(session.loop, STDOUT_FILENO),
        error_(session.loop, STDERR_FILENO),
        ended_(session.loop),
        tasks_(session.loop) {}

  Task<Result<int>> run() {
    std::optional<RawTerminal> raw;
    if (options_.terminal && options_.input && is_terminal_input()) {
      auto entered = RawTerminal::enter();
      if (!entered) co_return std::move(entered).error();
      raw.emplace(std::move(*entered));
    }
    CO_TRY(watch_, linux::Watch::create(session_.loop, signals_.fd()));
    tasks_.spawn(show_output());
    tasks_.spawn(heed_signals());
    if (options_.input) tasks_.spawn(send_input());
    if (options_.terminal) tasks_.spawn(resize());
    co_await ended_.wait(kNever);
    tasks_.cancel_all();
    raw.reset();
    if (!outcome_) co_return std::move(outcome_).error();
    if (job_end_) co_return report_end(*job_end_);
    if (!parting_.empty()) print_error(parting_);
    co_return *outcome_;
  }

 private:
  void finish(Result<int> outcome) {
    if (ended_.is_set()) return;
    outcome_ = std::move(outcome);
    ended_.set();
  }

  Task<> show_output() {
    for (;;) {
      auto event = co_await stream_->next(kNever);
      if (!event && is_absent(event.error())) {
        if (auto again = co_await attach_again(); !again)
          co_return finish(std::move(again).error());
        continue;
      }
      if (!event) co_return finish(std::move(event).error());
      if (!*event)
        co_return finish(make_error(ErrorCode::kInternal, "follow job", "it has no end"));
      if (auto shown = co_await show(std::move(**event)); !shown) {
        // Whoever read the output has left, as after `| head`.
        tasks_.spawn(send_signal(SIGPIPE));
        co_await session_.loop.sleep_for(std::chrono::milliseconds(100));
        co_return finish(kSignalBase + SIGPIPE);
      }
      if (job_end_) co_return finish(0);
    }
  }

  Task<Result<void>> show(JobEvent event) {
    if (const auto* end = std::get_if<JobInfo>(&event)) job_end_ = *end;
    const auto* piece = std::get_if<Output>(&event);
    const bool normal = piece == nullptr || piece->stream == Output::Stream::kOutput;
    if (piece != nullptr) (normal ? at_.output : at_.error) = piece->offset + piece->bytes.size();
    if (session_.common.json)
      co_return co_await output_.write(dump_json(sandbox::to_json(event)) + "\n");
    if (piece == nullptr) co_return {};
    if (piece->lost > 0)
      print_error(fmt::format("{} of output are kept no more", human_bytes(piece->lost)));
    co_return co_await (normal ? output_ : error_).write(piece->bytes);
  }

  Task<Result<void>> attach_again() {
    for (int i = 0;; ++i) {
      auto stream = co_await session_.provider.attach(sandbox_, job_, at_);
      if (stream) {
        stream_ = std::move(*stream);
        co_return {};
      }
      if (!is_absent(stream.error()) || i == kAttachTries) co_return std::move(stream).error();
      co_await session_.loop.sleep_for(kAttachPause);
    }
  }

  Task<> send_input() {
    StandardStream input(session_.loop, STDIN_FILENO);
    for (;;) {
      auto bytes = co_await input.read(kInputPiece);
      if (!bytes || bytes->empty()) break;
      // A job that has ended or closed its input wants no more of it.
      if (!co_await session_.provider.write_input(sandbox_, job_, std::move(*bytes))) co_return;
    }
    (void)co_await session_.provider.close_input(sandbox_, job_);
  }

  Task<> send_signal(int number) {
    (void)co_await session_.provider.signal(sandbox_, job_, number);
  }

  Task<> resize() {
    if (const auto size = terminal_size())
      (void)co_await session_.provider.resize(sandbox_, job_, *size);
  }

  Task<> heed_signals() {
    bool interrupted = !options_.interrupt_job;
    for (;;) {
      const auto signal = signals_.take();
      if (!signal) {
        co_await watch_->readable(kNever);
      } else if (*signal == SIGWINCH) {
        if (options_.terminal) tasks_.spawn(resize());
      } else if (*signal == SIGINT && !interrupted) {
        interrupted = true;
        tasks_.spawn(send_signal(SIGINT));
      } else {
        parting_ = options_.if_left;
        co_return finish(kSignalBase + *signal);
      }
    }
  }

  Session& session_;
  std::string sandbox_;
  std::unique_ptr<sandbox::JobStream> stream_;
  std::string job_;
  linux::SignalFd& signals_;
  std::optional<linux::Watch> watch_;  // for signals
  FollowOptions options_;
  sandbox::JobOffsets at_;
  StandardStream output_;
  StandardStream error_;
  std::optional<JobInfo> job_end_;
  std::string parting_;
  Result<int> outcome_ = 0;
  linux::Event ended_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace

Result<linux::SignalFd> watch_person() {
  return linux::SignalFd::create({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
}

Task<Result<int>> follow_job(Session& session, std::string sandbox,
                             std::unique_ptr<sandbox::JobStream> stream, linux::SignalFd& signals,
                             FollowOptions options) {
  Follower follower(session, std::move(sandbox), std::move(stream), signals, std::move(options));
  co_return co_await follower.run();
}

int report_end(const JobInfo& job) {
  const auto say = [&job](const std::string& words) {
    print_error(job.note.empty() ? words : words + ": " + job.note);
  };
  if (job.rolled_back) print_error("what the command did to files was undone");
  switch (job.outcome) {
    case sandbox::Outcome::kExit:
      if (!job.note.empty()) print_error(job.note);
      return job.code & 0xFF;
    case sandbox::Outcome::kSignal:
      say(fmt::format("the command was ended by signal {}", job.code));
      return kSignalBase + (job.code & 0x7F);
    case sandbox::Outcome::kTimeout:
      say(fmt::format("the command ran into its time limit after {}",
                      human_duration(static_cast<std::uint64_t>(job.duration.count()))));
      return kTimedOut;
    case sandbox::Outcome::kOutOfMemory:
      say("the command ran out of memory; `--memory` gives a sandbox more");
      return kSignalBase + SIGKILL;
    case sandbox::Outcome::kOutputLimit:
      say(fmt::format("the command was ended: it wrote {}, more than it may",
                      human_bytes(job.output_bytes + job.error_bytes)));
      return kPonsFailed;
    case sandbox::Outcome::kInterrupted:
      say("the sandbox ended under the command: it may have run; look before you retry");
      return kPonsFailed;
    case sandbox::Outcome::kRunning:
      break;
  }
  say("the command's end is not known");
  return kPonsFailed;
}

}  // namespace pons::cli
