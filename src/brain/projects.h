#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::brain {

inline constexpr std::string_view kDefaultProject = "default";
inline constexpr std::size_t kProjectsMax = 10'000;

// Milliseconds since 1970, as the store keeps times.
std::int64_t wall_ms(const Clock& clock);

// How much of a thing a project may have at a time; nothing: as much as there is.
struct ProjectLimits {
  std::optional<std::int64_t> sandboxes;            // alive
  std::optional<std::int64_t> sessions;             // not archived; agents of agents do not count
  std::optional<std::int64_t> requests_per_second;  // to all of the API but sandboxes' own
};

// What is to be changed of them: nothing where nothing is said.
struct LimitChanges {
  std::optional<std::optional<std::int64_t>> sandboxes;
  std::optional<std::optional<std::int64_t>> sessions;
  std::optional<std::optional<std::int64_t>> requests_per_second;
};

// Whom everything else belongs to: no row of one project is ever seen from another.
struct Project {
  std::string id;
  std::string name;
  std::int64_t created_ms = 0;
  ProjectLimits limits = {};
};

class Projects {
 public:
  Projects(store::Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // Makes the project "default" unless it is there.
  Task<Result<void>> ensure_default();
  // kConflict when the name is taken.
  Task<Result<Project>> create(std::string name);
  Task<Result<std::vector<Project>>> list();
  // By id, or by name.
  Task<Result<Project>> find(std::string id_or_name);
  // What is over a new limit already stays; nothing is added to it.
  Task<Result<Project>> change_limits(std::string id_or_name, LimitChanges changes);

 private:
  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::brain
