// How guests go: interrupted, idle, in the way of others, or because their session is over.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "arrival.h"
#include "guest.h"
#include "pons/base/log.h"
#include "pons/guest/guests.h"
#include "pons/harness/installation.h"

namespace pons::guest {

// ---- coming and going

void Guests::interrupt(Guest& guest) {
  if (!guest.process || !guest.process->is_in_turn() || !guest.being_done.empty()) return;
  if (guest.stop_by) return;
  const bool is_ready = guest.process->is_ready();
  if (!is_ready) guest.heard = {};  // what it was to be sent is forgotten with it
  guest.process->interrupt();
  // Before it is ready there is nobody who could stop, or whom the next message would be sent to.
  guest.stop_by = loop_.now() + (is_ready ? limits_.interrupt_time : Duration::zero());
  work_.spawn(enforce_interrupt(guest.session, *guest.stop_by));
}

Task<> Guests::enforce_interrupt(std::string session, TimePoint stop_by) {
  constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);
  for (TimePoint next = stop_by;; next = loop_.now() + kBetweenLooks) {
    co_await loop_.sleep_until(next);
    const auto found = guests_.find(session);
    if (found == guests_.end()) co_return;
    Guest& guest = *found->second;
    if (guest.stop_by != stop_by || !guest.process || !guest.process->is_usable()) co_return;
    if (guest.process->is_ready() && !guest.process->is_in_turn()) co_return;
    if (guest.is_asked) continue;  // whoever asks sees to it, as long as they do
    LOG_WARN("a harness does not stop, and is ended", {"session", session});
    const std::shared_ptr<Process> process = guest.process;
    co_return co_await process->end();
  }
}

// Nothing of its process is left. Its files stay.
Task<> Guests::dismiss(Guest& guest) {
  guest.answer_all("interrupted");
  if (guest.process) {
    // A cell that is gone is no reason to keep what was in it.
    if (std::exchange(guest.is_paused, false)) (void)co_await cells_.resume(guest.sandbox);
    const std::shared_ptr<Process> process = guest.process;
    co_await process->end();
    if (guest.process == process) guest.process.reset();
  }
  guest.heard = {};
  guest.half_said.clear();
  guest.stop_by.reset();
  co_await account(guest);
  if (!guest.key.empty()) {
    if (const auto closed = co_await desk_.close(std::exchange(guest.key, {})); !closed)
      LOG_WARN("a harness' key stays good for now", {"session", guest.session},
               {"error", closed.error()});
  }
  guest.charged = {};
}

// Idle ones make room.
Task<Result<void>> Guests::make_room() {
  while (running() >= limits_.processes) {
    Guest* oldest = nullptr;
    const auto is_better = [&](const Guest& guest) {
      if (oldest == nullptr || guest.is_busy() != oldest->is_busy())
        return oldest == nullptr || oldest->is_busy();
      return guest.used < oldest->used;
    };
    for (auto& [session, guest] : guests_)
      if (guest->process && !guest->is_asked && !guest->is_kept && is_better(*guest))
        oldest = guest.get();
    if (oldest == nullptr)
      co_return make_error(
          ErrorCode::kUnavailable, "start harness",
          fmt::format("{} harnesses are at work, which is the most", limits_.processes));
    const Keeping keeping(*oldest);
    co_await dismiss(*oldest);
  }
  co_return {};
}

Task<> Guests::keep_tidy() {
  co_await sweep();
  for (;;) {
    co_await loop_.sleep_for(std::chrono::seconds(1));
    std::vector<std::string> sessions;
    for (const auto& [session, guest] : guests_) sessions.push_back(session);
    for (const std::string& session : sessions)
      if (const auto found = guests_.find(session); found != guests_.end())
        co_await tidy(*found->second);
  }
}

Task<> Guests::tidy(Guest& guest) {
  const Duration idle = loop_.now() - guest.used;
  // One that waits for a tool or for a person is told of it in words, if that takes very long. What
  // it does itself has a time of its own.
  const Duration patience =
      guest.is_doing_own() ? std::max(limits_.own_call_time, limits_.wait_time) : limits_.wait_time;
  if (guest.is_asked || guest.is_kept || (guest.is_busy() && idle < patience)) co_return;
  const bool is_over = idle >= limits_.cell_idle;
  {
    const Keeping keeping(guest);
    if (is_over || (guest.process && idle >= limits_.stop_after)) co_await dismiss(guest);
    if (is_over && has_cell(guest)) (void)co_await cells_.destroy(guest.sandbox);
    if (guest.process && has_cell(guest) && !guest.is_paused && idle >= limits_.pause_after) {
      guest.is_paused = true;  // also where nobody hears whether it is
      (void)co_await cells_.pause(guest.sandbox);
    }
  }
  if (is_over) drop(guest);
}

// In its session's machine other programs work.
bool Guests::has_cell(const Guest& guest) {
  return guest.placement == harness::Placement::kBrain && !guest.sandbox.empty();
}

// Last: it is gone then, but for whoever waits for it.
void Guests::drop(Guest& guest) {
  if (guest.is_asked) return;
  by_sandbox_.erase(guest.sandbox);
  guests_.erase(std::string(guest.session));
}

// ---- sessions that are over

void Guests::forget(const std::string& session) {
  work_.spawn(clear_away(session));
}

// What it remembers of them lies in its cell.
Task<> Guests::clear_away(std::string session) {
  constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);
  while (const auto left = left_behind_.extract(session))
    (void)co_await cells_.destroy(left.mapped());
  auto found = guests_.find(session);
  for (; found != guests_.end() && found->second->is_kept; found = guests_.find(session))
    co_await loop_.sleep_for(kBetweenLooks);
  if (found == guests_.end() || found->second->is_asked) co_return;
  Guest& guest = *found->second;
  {
    const Keeping keeping(guest);
    co_await dismiss(guest);
    if (has_cell(guest)) (void)co_await cells_.destroy(guest.sandbox);
  }
  drop(guest);
}

// ---- what a brain before this one has left behind

// Their processes would answer nobody.
Task<> Guests::end_leftovers(std::string sandbox) {
  const auto jobs = co_await cells_.list_jobs(sandbox);
  if (!jobs) co_return;
  for (const sandbox::JobInfo& job : *jobs)
    if (job.outcome == sandbox::Outcome::kRunning && job.id.starts_with(kJobPrefix) &&
        !job.id.starts_with(job_prefix_))
      (void)co_await cells_.kill(sandbox, job.id);
}

// Without their processes, cells that nobody asks for end by themselves when their time is over.
Task<> Guests::sweep() {
  const auto all = co_await cells_.list();
  if (!all) co_return;
  for (const sandbox::SandboxInfo& cell : *all) {
    const auto session = cell.labels.find(kSessionLabel);
    // Sandboxes that people make of the same templates are none of ours.
    if (session == cell.labels.end() || by_sandbox_.contains(cell.id)) continue;
    if (is_cell(cell)) {
      left_behind_.emplace(session->second, cell.id);
      if (cell.state == sandbox::State::kPaused) (void)co_await cells_.resume(cell.id);
      co_await end_leftovers(cell.id);
    } else if (has_harness(cell) && cell.state == sandbox::State::kRunning) {
      co_await end_leftovers(cell.id);
    }
  }
}

bool Guests::is_cell(const sandbox::SandboxInfo& sandbox) const {
  return sandbox.id.starts_with(kCellPrefix) &&
         std::ranges::any_of(recipes_, [&](const harness::Recipe& recipe) {
           return sandbox.template_name == harness::brain_template(recipe);
         });
}

bool Guests::has_harness(const sandbox::SandboxInfo& sandbox) const {
  return std::ranges::any_of(recipes_, [&](const harness::Recipe& recipe) {
    return sandbox.template_name.ends_with("+" + harness::packages_template(recipe));
  });
}

}  // namespace pons::guest
