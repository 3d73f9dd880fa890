#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cell_client.h"
#include "limits_met.h"
#include "lock.h"
#include "notes.h"
#include "pons/sandbox/fleet_counts.h"
#include "pons/sandbox/namespaces.h"
#include "pool.h"
#include "spawning.h"
#include "template_store.h"

namespace pons::sandbox {

// How long a call waits for another that changes the same sandbox.
inline constexpr Duration kLockTime = std::chrono::seconds(20);

// A job as the warden knows it beside what the cell says.
struct Job {
  explicit Job(linux::Loop& loop) : finished(loop), input_lock(loop) {}
  linux::Event finished;  // `result` is set, or the sandbox is gone
  std::optional<JobInfo> result;
  bool finishing = false;
  bool killed = false;  // by a caller: then SIGKILL is no sign of lacking memory
  LimitCounts before;   // of the sandbox, when the job began
  bool input_begun = false;
  std::string label;
  std::optional<std::uint64_t> input_offset;  // unknown after a restart of the warden
  Lock input_lock;
};

struct Sandbox {
  Sandbox(linux::Loop& loop, SandboxRecord r)
      : record(std::move(r)),
        ready(loop),
        noted(loop),
        gone(loop),
        view_lock(loop),
        connect_lock(loop),
        transaction_over(loop) {}
  SandboxRecord record;
  linux::Event ready;            // it stands, or `failure` says why not
  linux::Event noted;            // and a restart of the warden would find it
  std::optional<Error> failure;  // of its creation
  linux::Event gone;             // nobody can use it any more
  std::string end_reason;
  std::shared_ptr<CellClient> cell;
  Note note;
  Lock view_lock;  // held while files, freezer or limits change
  Lock connect_lock;
  std::string transaction_beginning;  // the job for which a checkpoint is being taken
  linux::Event transaction_over;
  bool adopted =
      false;  // from an earlier warden, which may have begun jobs that this one never saw
  std::map<std::string, std::shared_ptr<Job>, std::less<>> jobs;
  std::set<std::string, std::less<>> running;  // jobs last seen running
  bool shell_used = true;  // the waiting shell may be somebody's by now, or was never started
  TimePoint claimed{};
  int calls = 0;
  bool looked_after = false;  // by the clock, at this moment
  TimePoint used{};
  std::int64_t used_unix_ms = 0;
  LimitCounts seen;  // the latest ones
};

// The use of one sandbox by one call. Keeps it from being idle, and alive in memory.
class Call {
 public:
  Call(linux::Loop& loop, std::shared_ptr<Sandbox> sandbox);
  Call(Call&& other) noexcept = default;
  Call& operator=(Call&& other) = delete;
  ~Call();
  Sandbox& operator*() const { return *sandbox_; }
  Sandbox* operator->() const { return sandbox_.get(); }
  const std::shared_ptr<Sandbox>& sandbox() const { return sandbox_; }

 private:
  linux::Loop* loop_;
  std::shared_ptr<Sandbox> sandbox_;  // shared: a call outlives the sandbox it was made on
};

std::int64_t unix_ms();
// The layers that sandboxes of a template stand on, topmost first.
Result<std::vector<spawner::Digest>> layers_below(const TemplateInfo& info);
Result<SandboxSpec> spec_for(const TemplateInfo& info, const Limits& limits);

// What is asked for as 0 is as in `others`.
void fill_in(Limits& limits, const Limits& others);

// All sandboxes of this warden: their lives, their files of record, and the way to their cells.
class Fleet {
 public:
  Fleet(linux::Loop& loop, spawner::Client& client, NamespacesSettings settings);

  // Takes over what an earlier warden left. Everything else waits for it.
  Result<void> start();
  Task<Result<void>> wait_until_adopted();

  Task<Result<SandboxInfo>> create(CreateRequest request, std::optional<Layers> below = {},
                                   std::optional<SandboxSpec> spec = {});
  // Returns when it stands; it is written down while its first job is sent.
  Task<Result<SandboxInfo>> create_for_job(CreateRequest request);
  // Limits on io that are not asked for are the defaults, so that asking for none lifts nothing.
  void fill_in_io(Limits& limits) const;
  Task<Result<void>> destroy(std::string id);
  Task<> end_all(TimePoint deadline);

  // For use now: not paused, and thawed if it was frozen for idleness.
  Task<Result<Call>> enter(std::string id);
  Task<Result<void>> pause(std::shared_ptr<Sandbox> sandbox);
  // In whatever state it is.
  Task<Result<Call>> find(std::string id);
  // The use of one that is there, for as long as it is held.
  std::shared_ptr<const Call> hold(const std::string& id);
  std::optional<SandboxInfo> find_ended(const std::string& id) const;
  SandboxInfo info_of(const Sandbox& sandbox) const;
  std::vector<std::shared_ptr<Sandbox>> all() const;

  // Asks the cell, over a new connection if the old one was lost. A cell that is silent or talks
  // nonsense ends its sandbox; then and when it has ended before, kUnavailable.
  Task<Result<CellClient::Answer>> ask(std::shared_ptr<Sandbox> sandbox, std::string request,
                                       TimePoint deadline);
  // The cell said something impossible. The error to return.
  Error condemn(const std::shared_ptr<Sandbox>& sandbox);
  // `counted_as`: static text, one of few.
  void end(std::shared_ptr<Sandbox> sandbox, std::string_view counted_as, std::string reason);
  void save(Sandbox& sandbox);
  void take_down(Sandbox& sandbox);
  Task<Result<std::vector<cell::JobState>>> list_cell_jobs(std::shared_ptr<Sandbox> sandbox);

  Known known() const;
  FleetCounts& counts() { return counts_; }
  FleetFigures figures() const;

  bool uses_layer(const spawner::OwnLayer& layer, const Sandbox& except) const;
  // Alone, or as a part of what a sandbox stands on.
  bool uses_template(std::string_view name) const;
  // Layers of templates that living sandboxes stand on, by the name of each of their templates.
  std::map<std::string, std::set<std::string>> template_layers_in_use() const;

  linux::Loop& loop() { return loop_; }
  Spawning& spawning() { return spawning_; }
  Pool& pool() { return pool_; }
  TemplateStore& templates() { return templates_; }
  // Work that goes on when the caller has left.
  void spawn(Task<> task) { tasks_.spawn(std::move(task)); }
  void set_adopted_hook(std::function<void(std::shared_ptr<Sandbox>)> hook) {
    adopted_hook_ = std::move(hook);
  }
  void timers_changed() { timers_changed_.set(); }

 private:
  struct BringUp {
    std::shared_ptr<Sandbox> sandbox;
    CreateRequest request;
    TemplateInfo info;
    std::optional<Layers> below;
    std::optional<Spawning::WayOut> way_out;
    std::map<std::string, std::string> given;  // by the network: variables of this one sandbox
  };
  Result<std::shared_ptr<Sandbox>> enlist(const CreateRequest& request, const TemplateInfo& info,
                                          std::optional<SandboxSpec> spec);
  Task<Result<std::shared_ptr<Sandbox>>> begin(CreateRequest request, std::optional<Layers> below,
                                               std::optional<SandboxSpec> spec);
  Task<> bring_up(BringUp work);
  Task<Result<void>> obtain(BringUp& work);
  Task<Result<void>> attach_network(BringUp& work);
  void detach_network(const Sandbox& sandbox);
  Result<void> claim(BringUp& work);
  Task<Result<void>> thaw(Call& call);
  Task<Result<std::shared_ptr<CellClient>>> cell_of(Sandbox& sandbox);
  Task<> adopt();
  Task<> sweep();
  Task<> adopt_one(Noted noted);
  Task<> set_right(std::shared_ptr<Sandbox> sandbox);
  Task<> follow_spawner();
  Task<bool> revive(Sandbox& sandbox, std::shared_ptr<CellClient> cell);
  void remove(const std::shared_ptr<Sandbox>& sandbox);

  Task<> keep_time();
  Task<> end_lifetime(std::shared_ptr<Sandbox> sandbox);
  Task<> look_after(std::shared_ptr<Sandbox> sandbox);
  Task<> look_after_aside(std::shared_ptr<Sandbox> sandbox);
  TimePoint next_look(const Sandbox& sandbox) const;
  Task<Result<bool>> is_idle(std::shared_ptr<Sandbox> sandbox);
  Task<> freeze_idle(std::shared_ptr<Sandbox> sandbox);

  linux::Loop& loop_;
  NamespacesSettings settings_;
  FleetCounts counts_;
  Spawning spawning_;
  Notes notes_;
  Pool pool_;
  TemplateStore templates_;
  std::map<std::string, std::shared_ptr<Sandbox>, std::less<>> sandboxes_;
  std::vector<SandboxInfo> ended_;  // the latest, oldest first
  std::function<void(std::shared_ptr<Sandbox>)> adopted_hook_;
  bool closing_ = false;
  linux::Event adopted_;
  linux::Event timers_changed_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::sandbox
