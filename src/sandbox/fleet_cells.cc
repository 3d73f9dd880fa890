// How the fleet reaches its cells, and how a new warden finds those of an earlier one.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cell_request.h"
#include "fleet.h"
#include "limit_rules.h"
#include "pons/base/log.h"
#include "pons/linux/fd.h"
#include "transactions.h"

namespace pons::sandbox {

namespace {

constexpr Duration kFirstSweep = std::chrono::seconds(2);
constexpr Duration kSweepAgain = std::chrono::minutes(1);

constexpr Duration kPingTime = std::chrono::seconds(5);
constexpr int kAdoptedAtOnce = 16;

// Checkpoints that the former warden took for a while, for forks, snapshots and commands that it
// did not come to begin, are nobody's.
void forget_unfinished(SandboxRecord& record) {
  std::erase_if(record.view.checkpoints, [&](const LayerView::Checkpoint& checkpoint) {
    return checkpoint.name.starts_with('\x01') &&
           std::ranges::none_of(record.transactions, [&](const auto& item) {
             return item.second.checkpoint == checkpoint.name;
           });
  });
}

Error ended_error(const Sandbox& sandbox) {
  return make_error(ErrorCode::kUnavailable, "use sandbox",
                    fmt::format("\"{}\" is gone: {}", sandbox.record.id, sandbox.end_reason));
}

}  // namespace

Task<Result<std::shared_ptr<CellClient>>> Fleet::cell_of(Sandbox& sandbox) {
  const auto good = [&] {
    return sandbox.cell != nullptr && sandbox.cell->health() == CellClient::Health::kGood;
  };
  if (good()) co_return sandbox.cell;
  CO_TRY(const auto guard,
         co_await sandbox.connect_lock.take("connect to cell", loop_.now() + kPingTime));
  if (sandbox.gone.is_set()) co_return ended_error(sandbox);
  if (good()) co_return sandbox.cell;
  CO_TRY(auto cell, co_await spawning_.connect(sandbox.record.key));
  if (sandbox.gone.is_set()) co_return ended_error(sandbox);
  sandbox.cell = std::move(cell);
  co_return sandbox.cell;
}

Task<Result<CellClient::Answer>> Fleet::ask(std::shared_ptr<Sandbox> sandbox, std::string request,
                                            TimePoint deadline) {
  for (int attempt = 0;; ++attempt) {
    if (sandbox->gone.is_set()) co_return ended_error(*sandbox);
    auto cell = co_await cell_of(*sandbox);
    if (!cell) {
      if (sandbox->gone.is_set()) co_return ended_error(*sandbox);
      // Only this is about the cell: a spawner that is busy or restarting says nothing about it.
      const Error& error = cell.error();
      if (error.code != ErrorCode::kNotFound && error.os_error != ECONNREFUSED &&
          error.os_error != ENOENT)
        co_return error;
      end(sandbox, "died", "its first process ended: " + error.describe());
      co_return ended_error(*sandbox);
    }
    auto answer = co_await (*cell)->call(request, deadline);
    if (answer && answer->status == cell::Status::kNotClaimed) {
      // A warden that was killed had answered its caller and not yet told the cell.
      end(sandbox, "lost", "it was lost on its way to you; create another");
      co_return ended_error(*sandbox);
    }
    if (answer) co_return std::move(answer);
    if (sandbox->gone.is_set()) co_return ended_error(*sandbox);
    if ((*cell)->health() == CellClient::Health::kGarbage) co_return condemn(sandbox);
    if (answer.error().code == ErrorCode::kTimeout) {
      if (sandbox->record.paused || sandbox->record.auto_frozen) co_return answer.error();
      if (co_await (*cell)->ping(loop_.now() + kPingTime)) co_return answer.error();
      if (sandbox->record.paused || sandbox->record.auto_frozen) co_return answer.error();
      if ((*cell)->health() == CellClient::Health::kGood) {
        if (co_await revive(*sandbox, *cell)) co_return answer.error();
        end(sandbox, "silent", "its first process does not answer");
        co_return ended_error(*sandbox);
      }
    }
    if (answer.error().code == ErrorCode::kLimit || attempt >= 2) {
      if (answer.error().code != ErrorCode::kLimit)
        end(sandbox, "died", "its first process hangs up");
      co_return answer.error();
    }
  }
}

// One that is frozen is silent as well, and should not be: whoever froze it may have died before he
// could thaw it. False when that is not the reason.
Task<bool> Fleet::revive(Sandbox& sandbox, std::shared_ptr<CellClient> cell) {
  const auto thawed =
      co_await spawning_.call(spawner_request(spawner::RequestKind::kThaw, sandbox.record.key));
  if (!thawed || thawed->reply.values[0] == 0) co_return false;
  LOG_WARN("a sandbox had stayed frozen", {"sandbox", sandbox.record.id});
  co_return co_await cell->ping(loop_.now() + kPingTime);
}

Error Fleet::condemn(const std::shared_ptr<Sandbox>& sandbox) {
  end(sandbox, "garbage", "its first process does not speak as it should");
  return ended_error(*sandbox);
}

Task<Result<std::vector<cell::JobState>>> Fleet::list_cell_jobs(std::shared_ptr<Sandbox> sandbox) {
  CO_TRY(const auto answer, co_await ask(sandbox, plain_request(cell::Op::kList),
                                         loop_.now() + std::chrono::seconds(5)));
  auto jobs = parse_job_list(answer.payload);
  if (answer.status != cell::Status::kDone || !jobs) co_return condemn(sandbox);
  sandbox->running.clear();
  for (const cell::JobState& job : *jobs)
    if (job.ended == cell::Ended::kRunning && !job_name_of(job).starts_with('\x01'))
      sandbox->running.emplace(job_name_of(job));
  // What the cell made room for is remembered here no longer either.
  std::erase_if(sandbox->jobs, [&](const auto& item) {
    return item.second->result && item.second.use_count() == 1 &&
           std::ranges::none_of(*jobs, [&](const auto& j) { return job_name_of(j) == item.first; });
  });
  co_return std::move(*jobs);
}

// ---- files of record

void Fleet::save(Sandbox& sandbox) {
  // One that does not outlive the warden is ended for not being on record.
  if (sandbox.gone.is_set() || sandbox.record.ephemeral) return;
  const auto write = [&]() -> Result<void> {
    if (!sandbox.note) sandbox.note = TRY(notes_.take());
    return sandbox.note.write(sandbox.record);
  };
  // The sandbox works on; only a restart of the warden would not find it as it is.
  if (const auto saved = write(); !saved)
    LOG_ERROR("cannot write down a sandbox", {"error", saved.error()});
}

// ---- adoption

Result<void> Fleet::start() {
  TRY_VOID(templates_.load());
  std::error_code error;
  std::filesystem::create_directory(settings_.state_dir + "/sandboxes", error);
  if (error) return os_error("create state directory", settings_.state_dir, error.value());
  tasks_.spawn(adopt());
  return {};
}

Task<> Fleet::adopt() {
  auto keys = co_await spawning_.list();
  while (!keys) {
    LOG_WARN("the spawner does not say which sandboxes there are", {"error", keys.error()});
    co_await loop_.sleep_for(std::chrono::milliseconds(500));
    keys = co_await spawning_.list();
  }
  std::set<std::uint64_t> left(keys->begin(), keys->end());
  {
    linux::TaskGroup group(loop_);
    int begun = 0;
    std::vector<Noted> all = notes_.load();
    // The newest first: of two with the same id the older was being ended.
    std::ranges::sort(all, std::greater(), [](const Noted& n) { return n.record.created_unix_ms; });
    for (Noted& noted : all) {
      if (noted.record.ephemeral || sandboxes_.contains(noted.record.id) ||
          left.erase(noted.record.key) == 0) {
        notes_.give_back(std::move(noted.note));
        continue;
      }
      group.spawn(adopt_one(std::move(noted)));
      if (++begun % kAdoptedAtOnce == 0) co_await group.wait_until_empty(kNever);
    }
    co_await group.wait_until_empty(kNever);
  }
  for (const std::uint64_t key : left) spawning_.destroy_soon(key);
  if (settings_.network_gate != nullptr) {
    std::vector<std::uint64_t> attached;
    for (const auto& [id, sandbox] : sandboxes_)
      if (sandbox->record.network.wanted()) attached.push_back(sandbox->record.key);
    settings_.network_gate->keep_only(std::move(attached));
  }
  adopted_.set();
  tasks_.spawn(sweep());
  // Sandboxes that wait ready write to memory.
  Limits in_memory = settings_.defaults;
  clear_io_limits(in_memory);
  if (auto usual = spec_for(host_template(), in_memory)) {
    pool_.start(std::move(*usual));
  } else {
    LOG_ERROR("the configured limits of a sandbox cannot be used", {"error", usual.error()});
  }
  tasks_.spawn(keep_time());
  tasks_.spawn(follow_spawner());
}

// Brings what is there to what is on record: a process of the warden or of the spawner may have
// died on the way from one to the other.
Task<> Fleet::set_right(std::shared_ptr<Sandbox> sandbox) {
  const auto guard = co_await sandbox->view_lock.take("set right", loop_.now() + kLockTime);
  if (!guard || sandbox->gone.is_set()) co_return;
  if (const auto settled = co_await settle_view(*this, *sandbox); !settled)
    LOG_WARN("it is not known yet on which files a sandbox stands", {"error", settled.error()});
  const SandboxRecord& record = sandbox->record;
  // That one is thawed by whoever uses it.
  if (record.auto_frozen && !record.paused) co_return;
  const auto kind = record.paused ? spawner::RequestKind::kFreeze : spawner::RequestKind::kThaw;
  const auto done = co_await spawning_.call(spawner_request(kind, record.key));
  if (!done && done.error().os_error != EOPNOTSUPP)
    LOG_WARN("cannot freeze or thaw a sandbox", {"sandbox", record.id}, {"error", done.error()});
}

// What its former process had frozen for a moment stays so without this.
Task<> Fleet::follow_spawner() {
  for (;;) {
    (void)co_await spawning_.begun().wait(kNever);
    spawning_.begun().reset();
    for (const auto& sandbox : all()) tasks_.spawn(set_right(sandbox));
  }
}

// A request of a former process of the warden may still have waited in the channel when this one
// asked what there is: what it made belongs to nobody. Unknown twice in a row is unknown.
Task<> Fleet::sweep() {
  std::set<std::uint64_t> suspects;
  for (Duration pause = kFirstSweep;; pause = std::min(2 * pause, kSweepAgain)) {
    co_await loop_.sleep_for(pause);
    const auto keys = co_await spawning_.list();
    if (!keys) continue;
    const Known ours = known();
    std::set<std::uint64_t> unknown;
    for (const std::uint64_t key : *keys)
      if (!ours.keys.contains(key)) unknown.insert(key);
    for (const std::uint64_t key : unknown)
      if (suspects.contains(key)) spawning_.destroy_soon(key);
    suspects = std::move(unknown);
  }
}

Task<> Fleet::adopt_one(Noted noted) {
  auto sandbox = std::make_shared<Sandbox>(loop_, std::move(noted.record));
  sandbox->note = std::move(noted.note);
  sandbox->used = loop_.now();
  sandbox->used_unix_ms = unix_ms();
  sandbox->ready.set();
  sandbox->noted.set();
  sandbox->adopted = true;
  forget_unfinished(sandbox->record);
  sandboxes_.emplace(sandbox->record.id, sandbox);
  const auto usage =
      co_await spawning_.call(spawner_request(spawner::RequestKind::kUsage, sandbox->record.key));
  if (usage) sandbox->seen = LimitCounts::of(usage->reply.values);
  co_await set_right(sandbox);
  // Idle, or in the middle of a copy when the former process died: then jobs wait to go on.
  if (sandbox->record.auto_frozen) {
    Call call(loop_, sandbox);
    if (const auto thawed = co_await thaw(call); !thawed)
      LOG_WARN("cannot thaw a sandbox", {"sandbox", sandbox->record.id}, {"error", thawed.error()});
  }
  if (!sandbox->record.paused && !sandbox->record.auto_frozen) {
    const auto jobs = co_await list_cell_jobs(sandbox);
    if (!jobs) LOG_WARN("a sandbox did not survive", {"sandbox", sandbox->record.id});
  }
  if (adopted_hook_ && !sandbox->gone.is_set()) adopted_hook_(sandbox);
}

}  // namespace pons::sandbox
