#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pons::schedule {

// What becomes of times at which nobody was there to start anything.
enum class Missed : std::uint8_t {
  kSkip,     // they are recorded, and that is all
  kRunOnce,  // the last of them is made up for, unless it is too long ago
};

struct Schedule {
  std::string expression;  // Cron's
  std::string timezone;    // of the IANA database
  Missed missed = Missed::kSkip;
  std::int64_t late_seconds = 3'600;  // for kRunOnce: from then on it is too long ago
  bool operator==(const Schedule&) const = default;
};

// What a session is made of, again and again. Members that say JSON are kept as they are given:
// their shape and size is looked at here, what is in them is the caller's. Nothing secret may be in
// them.
struct DeploymentSpec {
  std::string name;
  std::optional<std::string> description = std::nullopt;
  std::string agent;  // JSON: {"type":"agent","id":…,"version":…}
  std::string environment_id;
  std::string initial_events;                        // JSON: a list of 1 to 50
  std::string resources = "[]";                      // JSON: a list of up to 500
  std::string vault_ids = "[]";                      // JSON: a list of up to 50 ids
  std::optional<std::string> budget = std::nullopt;  // JSON: an object
  std::string metadata = "{}";                       // JSON: an object of texts
  std::optional<Schedule> schedule = std::nullopt;   // nothing: it runs when somebody says so
  bool operator==(const DeploymentSpec&) const = default;
};

// What is to be another than it was.
struct DeploymentChange {
  std::optional<std::string> name = std::nullopt;
  std::optional<std::optional<std::string>> description = std::nullopt;
  std::optional<std::string> agent = std::nullopt;
  std::optional<std::string> environment_id = std::nullopt;
  std::optional<std::string> initial_events = std::nullopt;
  std::optional<std::string> resources = std::nullopt;
  std::optional<std::string> vault_ids = std::nullopt;
  std::optional<std::optional<std::string>> budget = std::nullopt;
  std::optional<std::string> metadata = std::nullopt;
  std::optional<std::optional<Schedule>> schedule = std::nullopt;
};

inline constexpr const char* kPausedByHand = "manual";

struct Deployment {
  std::string id;
  std::string project;
  DeploymentSpec spec;
  // Why its schedule rests: kPausedByHand, or the type of the error that did it. Somebody may still
  // run it.
  std::optional<std::string> paused = std::nullopt;
  std::optional<std::int64_t> last_run_ms = std::nullopt;  // by schedule
  std::vector<std::int64_t> upcoming_ms = {};              // the next five; none when archived
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  std::optional<std::int64_t> archived_ms = std::nullopt;  // for good
};

}  // namespace pons::schedule
