#pragma once

#include <memory>
#include <set>
#include <string>

#include "pons/base/clock.h"
#include "pons/linux/loop.h"
#include "pons/schedule/deployments.h"
#include "pons/schedule/run.h"

namespace pons::schedule {

class Ticks;

// Starts what is due. Several processes may do so over one store: each tick is one of theirs, and
// what one of them leaves behind when it dies another takes up.
class Scheduler {
 public:
  struct Options {
    // Who this process is among those that share the store. Its next life bears the same name, and
    // takes up at once what it has left.
    std::string owner = "brain";
  };
  // All must outlive it. From now on changes of `deployments` wake it.
  Scheduler(linux::Loop& loop, const Clock& clock, store::Store& store, Zones& zones,
            Deployments& deployments, RunStarter& starter, Options options);
  ~Scheduler();

  // Runs as long as the process.
  Task<> keep_going();

  // Makes a session now, whatever the schedule says, and whether it rests or not. Well, too, when
  // there is an error instead of a session: the run says so.
  Task<Result<Run>> run_now(std::string project, std::string deployment);

  // Does what is to be done at this moment, and says how long nothing will be. Runs are started
  // meanwhile: all of them have come to an end when `settled` says so.
  Task<Duration> pass();
  auto settled(TimePoint deadline) { return tasks_.wait_until_empty(deadline); }

 private:
  class Underway;
  Task<Result<void>> pass_or_fail();
  bool clock_was_set_back();
  Task<Result<void>> take_up_left();
  Task<Result<void>> start_due();
  Task<Result<void>> deal_with(StoredDeployment due);
  Task<> start(Run run, std::int64_t attempts, std::unique_ptr<Underway> underway);
  Task<Result<std::variant<SessionId, RunError>>> try_to_start(Run run);

  linux::Loop& loop_;
  const Clock& clock_;
  RunStarter& starter_;
  Deployments& deployments_;
  std::unique_ptr<Ticks> ticks_;
  std::set<std::string> underway_;  // runs that this process is starting
  linux::Event woken_;
  std::optional<TimePoint> planned_;  // when plans were last looked at
  TimePoint seen_{};                  // at the last look,
  WallTime seen_wall_{};              // and what the wall clock showed then
  linux::TaskGroup tasks_;            // last: what runs in it uses all of the above
};

}  // namespace pons::schedule
