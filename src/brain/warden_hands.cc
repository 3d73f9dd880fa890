#include "pons/brain/warden_hands.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/sandbox/template_name.h"

namespace pons::brain {

namespace {

using session::ExecuteOrder;
using session::ExecuteReport;

constexpr std::int64_t kTimeoutSeconds = 300;
// Past its timeout a command is given so long to be ended and reported.
constexpr Duration kGrace = std::chrono::seconds(30);
// What is kept of a command's output; from then on the end of it.
constexpr std::uint64_t kOutputBytesMax = 10 << 20;
constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::seconds(1);
// A warden that is started again is back long before.
constexpr Duration kPatience = std::chrono::seconds(60);

bool may_be_back(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout ||
         error.os_error == ECONNREFUSED || error.os_error == ENOENT;
}

sandbox::Transaction transaction_of(ExecuteOrder::Undo undo) {
  switch (undo) {
    case ExecuteOrder::Undo::kNever:
      return sandbox::Transaction::kNone;
    case ExecuteOrder::Undo::kOnFailure:
      return sandbox::Transaction::kRollbackOnFailure;
    case ExecuteOrder::Undo::kAlways:
      return sandbox::Transaction::kRollbackAlways;
  }
  return sandbox::Transaction::kNone;
}

ExecuteReport::End end_of(sandbox::Outcome outcome) {
  using End = ExecuteReport::End;
  switch (outcome) {
    case sandbox::Outcome::kExit:
      return End::kExit;
    case sandbox::Outcome::kSignal:
      return End::kSignal;
    case sandbox::Outcome::kTimeout:
      return End::kTimeout;
    case sandbox::Outcome::kOutOfMemory:
      return End::kOutOfMemory;
    case sandbox::Outcome::kOutputLimit:
      return End::kOutputLimit;
    case sandbox::Outcome::kRunning:
    case sandbox::Outcome::kInterrupted:
      return End::kInterrupted;
  }
  return End::kInterrupted;
}

// Snapshots are named by their project, and open to nobody else.
bool is_others(std::string_view template_name, std::string_view project) {
  const std::string own = fmt::format("own.{}.", project);
  return std::ranges::any_of(sandbox::template_parts(template_name), [&](std::string_view part) {
    return part.starts_with("own.") && !part.starts_with(own);
  });
}

std::string describe(const sandbox::SandboxInfo& info) {
  const sandbox::Limits& limits = info.limits;
  return fmt::format(
      "A Linux machine ({} template): a shell, the usual command-line tools, a home directory you "
      "may write to. Limits: {} of memory, {:.3g} processor(s), {} processes.",
      info.template_name, human_bytes(limits.memory_bytes), limits.cpu_percent / 100.0,
      limits.pids);
}

}  // namespace

Task<Result<session::ProvisionReport>> WardenHands::provision(session::ProvisionOrder order) {
  if (is_others(order.sandbox_template, order.project))
    co_return make_error(ErrorCode::kNotFound, "provision",
                         fmt::format("there is no template \"{}\"", order.sandbox_template));
  sandbox::CreateRequest request{
      .id = order.sandbox,
      .template_name = order.sandbox_template,
      .labels = {{"pons.session", order.session}, {"pons.project", order.project}},
      .limits = limits_};
  request.network = {.environment = order.environment, .policy = order.network};
  if (order.memory_bytes > 0) request.limits.memory_bytes = order.memory_bytes;
  CO_TRY(const auto info, co_await make("", std::move(request)));
  co_return session::ProvisionReport{.contents = describe(info)};
}

Task<Result<void>> WardenHands::copy(session::CopyOrder order) {
  sandbox::CreateRequest request{
      .id = order.sandbox,
      .labels = {{"pons.session", order.session}, {"pons.project", order.project}},
      .limits = limits_};
  request.checkpoint = order.checkpoint;
  CO_TRY_VOID(co_await make(std::move(order.from), std::move(request)));
  co_return {};
}

// A new one, or one with another's files; over a restart of the warden.
Task<Result<sandbox::SandboxInfo>> WardenHands::make(std::string from,
                                                     sandbox::CreateRequest request) {
  const TimePoint deadline = loop_.now() + kPatience;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    auto info =
        from.empty() ? co_await provider_.create(request) : co_await provider_.fork(from, request);
    if (info || !may_be_back(info.error()) || loop_.now() >= deadline) co_return info;
    co_await loop_.sleep_for(pause);
  }
}

struct WardenHands::Collected {
  std::string output;
  std::uint64_t lost = 0;
  sandbox::JobOffsets at;
  std::optional<sandbox::JobInfo> end;
  TimePoint deadline;
  TimePoint heard;         // when the last word of it came
  bool was_begun = false;  // before this
  bool was_sent = false;   // and may have been begun, whatever came back

  bool is_begun() const { return was_begun || at.output + at.error > 0; }
  // What was to be joined may have been forgotten in a sandbox that is there.
  Error lost_by(Error error) const {
    if (is_begun() && error.code == ErrorCode::kNotFound) error.code = ErrorCode::kUnavailable;
    return error;
  }
  void take(sandbox::Output& piece) {
    lost += piece.lost;
    auto& offset = piece.stream == sandbox::Output::Stream::kOutput ? at.output : at.error;
    offset = piece.offset + piece.bytes.size();
    output += piece.bytes;
    if (output.size() <= kOutputBytesMax) return;
    // Half of it at a time, so that a long output is not moved with each piece.
    const std::size_t too_much = output.size() - kOutputBytesMax / 2;
    lost += too_much;
    output.erase(0, too_much);
  }
};

// The job begins, or is joined where this left it.
Task<Result<void>> WardenHands::follow(const ExecuteOrder& order, Collected& collected) {
  std::unique_ptr<sandbox::JobStream> stream;
  if (collected.is_begun()) {
    CO_TRY(stream, co_await provider_.attach(order.sandbox, order.call, collected.at));
  } else {
    // Where a sandbox was made again, the same id would run it a second time.
    if (order.may_be_remade && std::exchange(collected.was_sent, true)) {
      auto joined = co_await provider_.attach(order.sandbox, order.call, collected.at);
      if (!joined && joined.error().code == ErrorCode::kNotFound) collected.was_begun = true;
      if (!joined) co_return joined.error();
    }
    const std::int64_t seconds =
        order.timeout_seconds == 0 ? kTimeoutSeconds : order.timeout_seconds;
    CO_TRY(stream,
           co_await provider_.execute(order.sandbox, {.id = order.call,
                                                      .shell_line = order.command,
                                                      .input = order.input,
                                                      .timeout = std::chrono::seconds(seconds),
                                                      .transaction = transaction_of(order.undo)}));
  }
  for (;;) {
    CO_TRY(auto event, co_await stream->next(collected.deadline));
    if (!event) co_return make_error(ErrorCode::kUnavailable, "follow command", "it broke off");
    collected.heard = loop_.now();
    if (auto* piece = std::get_if<sandbox::Output>(&*event)) collected.take(*piece);
    if (auto* end = std::get_if<sandbox::JobInfo>(&*event)) {
      collected.end = std::move(*end);
      co_return {};
    }
  }
}

Task<Result<ExecuteReport>> WardenHands::execute(ExecuteOrder order) {
  const std::int64_t seconds = order.timeout_seconds == 0 ? kTimeoutSeconds : order.timeout_seconds;
  Collected collected;
  collected.was_begun = order.was_begun;
  collected.deadline = loop_.now() + std::chrono::seconds(seconds) + kGrace;
  // Patience begins with the first failure, however long the command has run by then.
  std::optional<TimePoint> failing;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const TimePoint begun = loop_.now();
    const auto followed = co_await follow(order, collected);
    if (followed) break;
    const TimePoint now = loop_.now();
    if (collected.heard >= begun || now - begun > kLongestPause) {
      failing.reset();  // it was there meanwhile
      pause = kFirstPause;
    }
    if (!failing) failing = now;
    if (!may_be_back(followed.error()) || now >= collected.deadline || now - *failing >= kPatience)
      co_return collected.lost_by(followed.error());
    co_await loop_.sleep_for(pause);
  }
  const sandbox::JobInfo& end = *collected.end;
  std::string checkpoint = co_await take_checkpoint(order);
  co_return ExecuteReport{.end = end_of(end.outcome),
                          .code = end.code,
                          .output = std::move(collected.output),
                          .lost_bytes = collected.lost,
                          .took_ms = end.duration.count(),
                          .rolled_back = end.rolled_back,
                          .checkpoint = std::move(checkpoint),
                          .note = end.note};
}

// None while a program of the sandbox still writes: the command has run all the same.
Task<std::string> WardenHands::take_checkpoint(const ExecuteOrder& order) {
  if (order.checkpoint.empty()) co_return "";
  const auto taken = co_await provider_.checkpoint(order.sandbox, order.checkpoint);
  if (!taken) co_return "";
  if (!order.forgotten.empty()) (void)co_await provider_.commit(order.sandbox, order.forgotten);
  co_return *taken;
}

Task<Result<void>> WardenHands::stop(std::string sandbox, std::string call) {
  auto stopped = co_await provider_.signal(sandbox, call, SIGKILL);
  // One that nobody knows may be on its way there.
  if (!stopped && stopped.error().code == ErrorCode::kNotFound) {
    co_await loop_.sleep_for(kLongestPause);
    stopped = co_await provider_.signal(std::move(sandbox), std::move(call), SIGKILL);
  }
  // It has ended, or was never begun, or its sandbox is gone.
  if (!stopped &&
      (stopped.error().code == ErrorCode::kNotFound || stopped.error().code == ErrorCode::kInvalid))
    co_return {};
  co_return stopped;
}

Task<Result<void>> WardenHands::destroy(std::string sandbox) {
  co_return co_await provider_.destroy(std::move(sandbox));
}

}  // namespace pons::brain
