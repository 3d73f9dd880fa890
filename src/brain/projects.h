#pragma once

#include <cstdint>
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

// Whom everything else belongs to: no row of one project is ever seen from another.
struct Project {
  std::string id;
  std::string name;
  std::int64_t created_ms = 0;
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

 private:
  store::Store& store_;
  const Clock& clock_;
};

}  // namespace pons::brain
