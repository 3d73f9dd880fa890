#include "driver.h"
#include "pons/base/log.h"

// What a person has decided about a wish of a program in a sandbox.

namespace pons::session {

namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(5);

}  // namespace

// Until it is done, or cannot be: the agent goes on when it can rely on it.
Task<> Driver::carry_out_decision(Seq seq) {
  const AccessWait wait = *state_.find_access(seq);
  Result<AccessReport> report =
      AccessReport{.outcome = AccessOutcome::kFailed, .message = "nobody here can allow it"};
  for (Duration pause = kFirstPause; world_.extras.desk != nullptr;
       pause = std::min(2 * pause, kLongestPause)) {
    report = co_await world_.extras.desk->decide({.request = wait.request,
                                                  .allowed = wait.decision->allowed,
                                                  .message = wait.decision->message});
    if (report) break;
    LOG_WARN("what a person decided cannot be carried out yet", {"session", lease_.session},
             {"error", report.error()});
    co_await world_.loop.sleep_for(pause);
  }
  deliver({.events = {AccessEnded{.request = wait.request,
                                  .outcome = report->outcome,
                                  .message = std::move(report->message)}},
           .effect = seq});
}

}  // namespace pons::session
