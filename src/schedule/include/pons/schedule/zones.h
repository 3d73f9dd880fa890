#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/schedule/zone.h"

namespace pons::schedule {

// Where Debian's package tzdata keeps them.
inline constexpr const char* kZoneFolder = "/usr/share/zoneinfo";

// True for what can be the name of a zone ("Europe/Berlin", "Etc/GMT+5"): it leads to no other
// folder.
bool is_zone_name(std::string_view name);

// Time zones by their names in the IANA database, from the host's files.
class Zones {
 public:
  explicit Zones(const Clock& clock, std::string folder = kZoneFolder)
      : clock_(clock), folder_(std::move(folder)) {}

  // kInvalid when there is no such zone. Read again from time to time: governments change their
  // minds, and the package is updated while Pons runs.
  Result<std::shared_ptr<const Zone>> load(std::string_view name);

 private:
  struct Kept {
    std::shared_ptr<const Zone> zone;
    TimePoint until;
  };
  Result<std::shared_ptr<const Zone>> read(const std::string& name) const;

  const Clock& clock_;
  std::string folder_;
  std::map<std::string, Kept, std::less<>> kept_;
};

}  // namespace pons::schedule
