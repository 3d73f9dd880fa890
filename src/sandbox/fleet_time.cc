// What happens to sandboxes by the clock: the end of their lives, and the freezer when idle.

#include <algorithm>

#include "fleet.h"
#include "pons/base/log.h"

namespace pons::sandbox {

namespace {

constexpr Duration kBetweenLooks = std::chrono::milliseconds(20);

TimePoint after(TimePoint from, Milliseconds time) {
  // No sum of a configured time may pass the end of the clock.
  constexpr Milliseconds kLongest = std::chrono::hours(24 * 365);
  return time.count() == 0 ? kNever : from + std::min(time, kLongest);
}

}  // namespace

TimePoint Fleet::next_look(const Sandbox& sandbox) const {
  const SandboxRecord& record = sandbox.record;
  const Milliseconds age{unix_ms() - record.created_unix_ms};
  TimePoint next = after(loop_.now() - std::max(age, Milliseconds{0}), record.limits.lifetime_max);
  // One that a person paused waits for that person, until its lifetime is over.
  if (record.paused) return record.limits.pause_at_end ? kNever : next;
  next = std::min(next, after(sandbox.used, record.limits.idle_max));
  if (!record.auto_frozen) next = std::min(next, after(sandbox.used, record.limits.freeze_after));
  return next;
}

Task<> Fleet::keep_time() {
  for (;;) {
    timers_changed_.reset();
    TimePoint next = kNever;
    for (const auto& sandbox : all()) {
      // The end of a look is told.
      if (sandbox->gone.is_set() || sandbox->looked_after) continue;
      const TimePoint due = next_look(*sandbox);
      if (due > loop_.now()) {
        next = std::min(next, due);
        continue;
      }
      sandbox->looked_after = true;
      tasks_.spawn(look_after_aside(sandbox));
    }
    co_await timers_changed_.wait(next);
  }
}

// Side by side: a cell that does not answer delays no other sandbox.
Task<> Fleet::look_after_aside(std::shared_ptr<Sandbox> sandbox) {
  co_await look_after(sandbox);
  // What could not be done now is not tried again at once.
  co_await loop_.sleep_for(kBetweenLooks);
  sandbox->looked_after = false;
  timers_changed_.set();
}

Task<Result<void>> Fleet::pause(std::shared_ptr<Sandbox> sandbox) {
  CO_TRY(const auto guard, co_await sandbox->view_lock.take("pause", loop_.now() + kLockTime));
  if (sandbox->record.paused) co_return {};
  // On record first: a cell that does not answer meanwhile is not taken for ill, also by the next
  // warden.
  sandbox->record.paused = true;
  save(*sandbox);
  const auto frozen =
      co_await spawning_.call(spawner_request(spawner::RequestKind::kFreeze, sandbox->record.key));
  if (!frozen) {
    // Without an answer it may be frozen all the same.
    (void)co_await spawning_.call(
        spawner_request(spawner::RequestKind::kThaw, sandbox->record.key));
    sandbox->record.paused = false;
    save(*sandbox);
    co_return frozen.error();
  }
  sandbox->record.auto_frozen = false;
  save(*sandbox);
  co_return {};
}

Task<> Fleet::end_lifetime(std::shared_ptr<Sandbox> sandbox) {
  if (!sandbox->record.limits.pause_at_end) {
    end(sandbox, "lifetime", "its lifetime is over");
    co_return;
  }
  if (const auto paused = co_await pause(sandbox); !paused)
    LOG_WARN("cannot pause a sandbox whose time is over", {"error", paused.error()});
}

Task<> Fleet::look_after(std::shared_ptr<Sandbox> sandbox) {
  const Limits& limits = sandbox->record.limits;
  if (limits.lifetime_max.count() > 0 &&
      unix_ms() - sandbox->record.created_unix_ms >= limits.lifetime_max.count()) {
    co_await end_lifetime(sandbox);
    co_return;
  }
  const auto idle = co_await is_idle(sandbox);
  if (!idle || !*idle || sandbox->gone.is_set()) {
    sandbox->used = loop_.now();
    co_return;
  }
  if (loop_.now() >= after(sandbox->used, limits.idle_max)) {
    end(sandbox, "idle", "it was idle for too long");
  } else if (loop_.now() >= after(sandbox->used, limits.freeze_after)) {
    co_await freeze_idle(sandbox);
  }
}

Task<Result<bool>> Fleet::is_idle(std::shared_ptr<Sandbox> sandbox) {
  if (sandbox->calls > 0) co_return false;
  if (sandbox->record.paused) co_return true;
  // With jobs it is not for idleness that it is frozen, and nobody might ask for it again.
  if (sandbox->record.auto_frozen && !sandbox->running.empty()) {
    Call call(loop_, sandbox);
    CO_TRY_VOID(co_await thaw(call));
    co_return false;
  }
  if (sandbox->record.auto_frozen) co_return true;
  CO_TRY(const auto jobs, co_await list_cell_jobs(sandbox));
  if (sandbox->calls > 0 || !sandbox->running.empty()) co_return false;
  co_return true;
}

Task<> Fleet::freeze_idle(std::shared_ptr<Sandbox> sandbox) {
  const auto guard = co_await sandbox->view_lock.take("freeze sandbox", loop_.now());
  if (!guard || sandbox->calls > 0 || sandbox->gone.is_set()) co_return;
  // On record first: a call that comes now waits for the lock and thaws, and so does the next
  // warden.
  sandbox->record.auto_frozen = true;
  save(*sandbox);
  const auto frozen =
      co_await spawning_.call(spawner_request(spawner::RequestKind::kFreeze, sandbox->record.key));
  if (!frozen) {
    (void)co_await spawning_.call(
        spawner_request(spawner::RequestKind::kThaw, sandbox->record.key));
    sandbox->record.auto_frozen = false;
    sandbox->used = loop_.now();
    LOG_WARN("cannot freeze an idle sandbox", {"error", frozen.error()});
  }
  save(*sandbox);
}

}  // namespace pons::sandbox
