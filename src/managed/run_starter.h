#pragma once

#include "pons/schedule/run.h"
#include "routes.h"

namespace pons::managed {

// The sessions of deployments. A refusal that stays is the run's error; whatever may pass is tried
// again.
class SessionStarter final : public schedule::RunStarter {
 public:
  SessionStarter(Objects& objects, session::Sessions& sessions)
      : objects_(objects), sessions_(sessions) {}
  Task<Result<std::variant<schedule::SessionId, schedule::RunError>>> start_run(
      schedule::RunOrder order) override;

 private:
  Objects& objects_;
  session::Sessions& sessions_;
};

// What a refusal of a session is called as the error of a run.
schedule::RunError run_error_of(const Refusal& refusal);

}  // namespace pons::managed
