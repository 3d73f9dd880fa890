#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "pons/base/id.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/schedule/deployment.h"

namespace pons::schedule {

// Why there is no session. The types are those of the public API ("agent_archived_error" …).
struct RunError {
  std::string type;
  std::string message;
  bool operator==(const RunError&) const = default;
};

bool is_run_error(std::string_view type);
// True for those that stay until somebody does something: a schedule that meets one rests.
bool pauses_schedule(std::string_view type);

// That a deployment was to make a session, and what came of it. What the session does is not its
// business.
struct Run {
  std::string id;
  std::string project;
  std::string deployment;
  std::string agent;                                        // JSON, as the deployment had it then
  std::optional<std::int64_t> scheduled_ms = std::nullopt;  // nothing: somebody said so
  std::string session;                                      // one of the two is there
  std::optional<RunError> error = std::nullopt;
  std::int64_t created_ms = 0;
};

struct SessionTag {
  static constexpr std::string_view kPrefix = "sesn";
};
using SessionId = Id<SessionTag>;

// The session of a run, always the same one.
SessionId session_id_for(std::string_view run);

struct RunOrder {
  Run run;
  DeploymentSpec spec;
  SessionId session;  // to be made under this id
};

// Makes the session of a run. Asked again, by another process too, it finds the one that is there.
// An error means that it could not be tried, and it is asked again; a RunError is the answer.
class RunStarter {
 public:
  virtual ~RunStarter() = default;
  virtual Task<Result<std::variant<SessionId, RunError>>> start_run(RunOrder order) = 0;
};

// Times that came while nobody was there: from the first to the last of them.
struct Miss {
  std::int64_t first_ms = 0;
  std::int64_t last_ms = 0;
  std::int64_t ticks = 0;  // at least so many
  std::int64_t created_ms = 0;
};

}  // namespace pons::schedule
