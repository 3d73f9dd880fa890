#include "call.h"

#include <fmt/format.h>

namespace pons::e2b {

namespace {

constexpr const char* kReachSandbox = "reach sandbox";

Task<> set_at_end(Task<> work, linux::Event& over, bool& ended) {
  co_await std::move(work);
  ended = true;
  over.set();
}

Task<> set_when_left(http::Exchange& exchange, linux::Event& over) {
  if (co_await exchange.wait_for_hang_up(kNever)) over.set();
}

}  // namespace

Error gone_error(const std::string& sandbox) {
  return make_error(ErrorCode::kUnavailable, kReachSandbox,
                    fmt::format("sandbox {} is not running", sandbox));
}

bool is_gone(const Error& error) {
  return std::string_view(error.step) == kReachSandbox;
}

Task<Result<void>> wake_for(sandbox::Provider& provider, const sandbox::SandboxInfo& info,
                            sandbox::Milliseconds time) {
  // Before, too: the time of one that runs may be over at once.
  CO_TRY_VOID(co_await provider.set_lifetime(info.id, time, info.limits.pause_at_end));
  CO_TRY_VOID(co_await provider.resume(info.id));
  CO_TRY_VOID(co_await provider.set_lifetime(info.id, time, info.limits.pause_at_end));
  if (info.labels.contains(kColdPauseLabel)) {
    CO_TRY_VOID(co_await provider.set_label(info.id, kColdPauseLabel, ""));
  }
  co_return {};
}

Task<Result<void>> Call::ensure_awake() {
  auto info = co_await provider.inspect(id());
  if (!info) {
    if (info.error().code != ErrorCode::kNotFound) co_return std::move(info).error();
    directory_.forget(id());
    co_return gone_error(id());
  }
  if (info->state == sandbox::State::kRunning) co_return {};
  if (info->state == sandbox::State::kEnded) directory_.forget(id());
  if (info->state == sandbox::State::kEnded || !access->auto_resume || is_paused_cold(*info))
    co_return gone_error(id());
  // Its time may be what ended in the pause: traffic gives it a new one.
  constexpr sandbox::Milliseconds kWokenFor = std::chrono::minutes(5);
  co_return co_await wake_for(provider, *info, kWokenFor);
}

// A file may be missing, too, and a directory be there already: only the sandbox's state tells.
Task<Result<bool>> Call::wake_after(Error error) {
  switch (error.code) {
    case ErrorCode::kConflict: {
      CO_TRY(const auto info, co_await provider.inspect(id()));
      if (info.state == sandbox::State::kRunning) co_return false;
      CO_TRY_VOID(co_await ensure_awake());
      co_return true;
    }
    case ErrorCode::kNotFound:
    case ErrorCode::kUnavailable:
      CO_TRY_VOID(co_await ensure_awake());
      co_return false;
    default:
      co_return false;
  }
}

Task<bool> run_while_client_stays(http::Exchange& exchange, Task<> work) {
  bool ended = false;
  linux::Event over(exchange.loop());
  linux::TaskGroup group(exchange.loop());
  group.spawn(set_at_end(std::move(work), over, ended));
  group.spawn(set_when_left(exchange, over));
  co_await over.wait(kNever);
  co_return ended;
}

}  // namespace pons::e2b
