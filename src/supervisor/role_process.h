#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/config/config.h"
#include "pons/linux/child.h"
#include "pons/linux/loop.h"
#include "pons/roles/keeper.h"
#include "pons/roles/start.h"
#include "role_log.h"

namespace pons::supervisor {

// One role under supervision: its process, its log, its kept descriptors, and what happens when it
// dies.
class RoleProcess {
 public:
  enum class State : std::uint8_t { kStarting, kReady, kWaiting, kStopped };

  // `prepare` makes what the role is started with; called for each start.
  RoleProcess(linux::Loop& loop, roles::Role role, const config::SupervisorConfig& settings,
              int executable, std::function<Result<roles::RoleStart>()> prepare);

  // Starts it, and again whenever it dies, until stop() or until it failed `start_attempts` times
  // before ever getting ready. Returns why it gave up; nothing when it was stopped.
  Task<std::optional<std::string>> supervise();

  // Asks it to end; kills it at the deadline. supervise() returns.
  Task<> stop(TimePoint deadline);
  // Kills it without asking and lets no other follow. supervise() returns.
  void end_now();

  roles::Role role() const { return role_; }
  State state() const { return state_; }
  pid_t pid() const { return child_ ? child_->pid() : 0; }  // 0 while none runs
  TimePoint since() const { return since_; }                // of the present state
  std::uint64_t restarts() const { return restarts_; }
  const std::string& last_exit() const { return last_exit_; }
  std::size_t kept_descriptors() const { return store_.items().size(); }
  const roles::DescriptorStore& kept() const { return store_; }
  linux::Event& ready() { return ready_; }

 private:
  Result<void> start();
  Task<Duration> run_once();
  Task<linux::ExitStatus> wait_for_exit();
  Task<> relay_log(linux::UniqueFd pipe);
  Task<> kill_if_not_ready(TimePoint deadline);
  void enter(State state);

  linux::Loop& loop_;
  roles::Role role_;
  const config::SupervisorConfig& settings_;
  int executable_;
  std::function<Result<roles::RoleStart>()> prepare_;

  State state_ = State::kStarting;
  TimePoint since_;
  bool ever_ready_ = false;
  bool stopping_ = false;
  std::uint32_t failures_in_a_row_ = 0;
  std::uint64_t restarts_ = 0;
  std::string last_exit_;
  RoleLog log_;
  roles::DescriptorStore store_;
  std::optional<linux::ChildProcess> child_;
  linux::UniqueFd line_;
  linux::UniqueFd log_pipe_;
  linux::Event ready_;
  linux::Event stop_asked_;
  linux::Event ended_;
};

// Doubles with each failure in a row, up to the configured maximum.
Duration restart_delay(const config::SupervisorConfig& settings, std::uint32_t failures_in_a_row);

std::string_view to_string(RoleProcess::State state);

}  // namespace pons::supervisor
