#include "role_process.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/channel.h"

namespace pons::supervisor {

namespace {

using linux::Wait;

// A role that lived this long after it got ready did not die of its start: it is restarted at once.
constexpr std::size_t kLogBytesPerSecond = 512 * 1024;
constexpr Duration kStableTime = std::chrono::seconds(10);

Duration milliseconds(std::uint64_t count) {
  return std::chrono::milliseconds(count);
}

}  // namespace

std::string_view to_string(RoleProcess::State state) {
  switch (state) {
    case RoleProcess::State::kStarting:
      return "starting";
    case RoleProcess::State::kReady:
      return "ready";
    case RoleProcess::State::kWaiting:
      return "waiting to restart";
    case RoleProcess::State::kStopped:
      return "stopped";
  }
  return "unknown";
}

RoleProcess::RoleProcess(linux::Loop& loop, roles::Role role,
                         const config::SupervisorConfig& settings, int executable,
                         std::function<Result<roles::RoleStart>()> prepare)
    : loop_(loop),
      role_(role),
      settings_(settings),
      executable_(executable),
      prepare_(std::move(prepare)),
      since_(loop.now()),
      ready_(loop),
      stop_asked_(loop),
      ended_(loop) {
  ended_.set();  // until it is supervised
}

void RoleProcess::enter(State state) {
  state_ = state;
  since_ = loop_.now();
}

// ---- one life of the process

Result<void> RoleProcess::start() {
  roles::RoleStart start = TRY(prepare_());
  auto line = TRY(linux::create_socket_pair(SOCK_SEQPACKET));
  auto log = TRY(linux::create_pipe());
  TRY_VOID(linux::set_nonblocking(log.read_end.get()));
  start.descriptors.emplace("keeper", std::move(line.second));
  const auto settings = TRY(roles::write_role_start(start));

  linux::ChildOptions options{.argv = {"pons", "role", std::string(roles::name_of(role_))}};
  options.descriptors = {{log.write_end.get(), STDERR_FILENO},
                         {settings.get(), roles::kStartDescriptor}};
  int number = roles::kFirstNamedDescriptor;
  for (const auto& [name, descriptor] : start.descriptors)
    options.descriptors.emplace_back(descriptor.get(), number++);
  child_ = TRY(linux::ChildProcess::spawn(fmt::format("/proc/self/fd/{}", executable_), options));
  line_ = std::move(line.first);
  log_pipe_ = std::move(log.read_end);
  return {};
}

// From start to death. Returns how long it was ready.
Task<Duration> RoleProcess::run_once() {
  enter(State::kStarting);
  ready_.reset();
  if (auto started = start(); !started) {
    last_exit_ = started.error().describe();
    LOG_ERROR("cannot start a role", {"role", roles::name_of(role_)}, {"error", started.error()});
    enter(State::kWaiting);
    co_return Duration::zero();
  }
  Duration ready_time{};
  {
    linux::TaskGroup life(loop_);
    linux::TaskGroup log(loop_);
    log.spawn(relay_log(std::move(log_pipe_)));
    life.spawn(kill_if_not_ready(loop_.now() + std::chrono::seconds(settings_.ready_seconds)));
    life.spawn(roles::serve_keeper(loop_, line_.get(), store_, [this] {
      if (state_ != State::kStarting) return;  // the word of a process that has died since
      ever_ready_ = true;
      enter(State::kReady);
      ready_.set();
    }));
    last_exit_ = (co_await wait_for_exit()).describe();
    if (state_ == State::kReady) ready_time = loop_.now() - since_;
    ready_.reset();
    enter(State::kWaiting);
    // Its last words are still in the pipe.
    co_await log.wait_until_empty(loop_.now() + milliseconds(200));
  }
  log_.finish(relay_log_line);
  line_.reset();
  co_return ready_time;
}

Task<linux::ExitStatus> RoleProcess::wait_for_exit() {
  std::optional<linux::ExitStatus> status;
  {
    auto watch = linux::Watch::create(loop_, child_->pidfd());
    CHECK(watch.has_value());
    while (!(status = child_->try_wait())) co_await watch->readable(kNever);
  }
  child_.reset();
  co_return *status;
}

Task<> RoleProcess::kill_if_not_ready(TimePoint deadline) {
  if (co_await ready_.wait(deadline) == Wait::kReady) co_return;
  LOG_ERROR("a role did not get ready in time", {"role", roles::name_of(role_)},
            {"seconds", settings_.ready_seconds});
  if (child_) (void)child_->send_signal(SIGKILL);
}

Task<> RoleProcess::relay_log(linux::UniqueFd pipe) {
  auto watch = linux::Watch::create(loop_, pipe.get());
  CHECK(watch.has_value());
  roles::FairTurns turns(loop_);
  TimePoint second = loop_.now();
  std::size_t bytes_this_second = 0;
  char piece[4096];
  for (;;) {
    const ssize_t got = read(pipe.get(), piece, sizeof piece);
    if (got < 0 && errno == EAGAIN) {
      co_await watch->readable(kNever);
      continue;
    }
    if (got <= 0) co_return;
    log_.feed({piece, static_cast<std::size_t>(got)}, relay_log_line);
    co_await turns.after_message();
    // A role that floods waits at its full pipe; the log's reader and its disk do not pay for it.
    bytes_this_second += static_cast<std::size_t>(got);
    if (bytes_this_second > kLogBytesPerSecond)
      co_await loop_.sleep_until(second + std::chrono::seconds(1));
    if (loop_.now() - second >= std::chrono::seconds(1)) {
      second = loop_.now();
      bytes_this_second = 0;
    }
  }
}

// ---- over many lives

Duration restart_delay(const config::SupervisorConfig& settings, std::uint32_t failures_in_a_row) {
  if (failures_in_a_row == 0) return Duration::zero();
  const std::uint32_t doublings = std::min(failures_in_a_row - 1, 20U);
  return milliseconds(
      std::min<std::uint64_t>(settings.restart_delay_max_ms,
                              static_cast<std::uint64_t>(settings.restart_delay_ms) << doublings));
}

Task<std::optional<std::string>> RoleProcess::supervise() {
  std::optional<std::string> gave_up;
  ended_.reset();
  while (!stopping_ && !gave_up) {
    const Duration ready_time = co_await run_once();
    failures_in_a_row_ = ready_time >= kStableTime ? 0 : failures_in_a_row_ + 1;
    if (stopping_) break;
    if (!ever_ready_ && failures_in_a_row_ >= settings_.start_attempts) {
      gave_up =
          fmt::format("{} failed to start {} times ({}); its last words:\n{}",
                      roles::name_of(role_), failures_in_a_row_, last_exit_, log_.last_words());
      break;
    }
    const Duration delay = restart_delay(settings_, failures_in_a_row_);
    LOG_WARN("a role ended; starting it again", {"role", roles::name_of(role_)},
             {"how", last_exit_}, {"delay_ms", delay.count() / 1'000'000});
    co_await stop_asked_.wait(loop_.now() + delay);
    ++restarts_;
  }
  enter(State::kStopped);
  ended_.set();
  co_return gave_up;
}

Task<> RoleProcess::stop(TimePoint deadline) {
  stopping_ = true;
  stop_asked_.set();
  if (child_) (void)child_->send_signal(SIGTERM);
  if (co_await ended_.wait(deadline) == Wait::kReady) co_return;
  LOG_WARN("a role did not end in time and is killed", {"role", roles::name_of(role_)});
  end_now();
  co_await ended_.wait(loop_.now() + std::chrono::seconds(2));
}

void RoleProcess::end_now() {
  stopping_ = true;
  stop_asked_.set();
  if (child_) (void)child_->send_signal(SIGKILL);
}

}  // namespace pons::supervisor
