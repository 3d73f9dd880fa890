#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pons/session/world.h"

namespace pons::session {

// Of what a chore is about, where that is two things.
std::pair<std::string, std::string> two_words(const std::string& what);

// Does what stored events have left to be done outside, until it is done. What the process before
// this one did not get to is in the log.
class Chores {
 public:
  static constexpr std::string_view kDestroySandbox = "destroy_sandbox";
  static constexpr std::string_view kStopSession = "stop_session";
  static constexpr std::string_view kWithdrawAccess = "withdraw_access";
  static constexpr std::string_view kStopCommand = "stop_command";        // "SANDBOX CALL"
  static constexpr std::string_view kChargeQuestion = "charge_question";  // "NAME ID"

  explicit Chores(World& world) : world_(world), woken_(world.loop), tasks_(world.loop) {}

  void begin(const Chore& chore);
  // Not stored: nothing is lost when it does not happen.
  void drop_sandbox(std::string sandbox);

  // Takes up what was left over, and forgets what is done, now and then.
  Task<> keep_going();
  // Others may have left something for this node.
  void look() { woken_.set(); }
  bool is_idle() const { return tasks_.size() == 0; }

 private:
  Task<> carry_out(Chore chore);
  Task<Result<void>> try_once(const Chore& chore);
  Task<> drop(std::string sandbox);

  World& world_;
  std::map<std::string, bool> under_way_;  // by id; true: done, and not yet forgotten
  linux::Event woken_;
  linux::TaskGroup tasks_;
};

}  // namespace pons::session
