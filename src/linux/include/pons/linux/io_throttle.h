#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/cgroup.h"

// How fast one block device may be read and written, for a device that one group has to itself.
//
// Version 2 limits the group, with what the kernel writes back for it later. Version 1 charges what
// is written back to the root group, whoever wrote it: a limit on a group of its own would hold
// only for direct and synchronous writes. There the limit is set for the device in the root group,
// and the processes stay in the group that this process is in.

namespace pons::linux {

// Each per second; 0 is no limit.
struct IoLimits {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
  std::uint64_t read_operations = 0;
  std::uint64_t write_operations = 0;
  bool operator==(const IoLimits&) const = default;
};

class IoThrottle {
 public:
  // kUnsupported names the controller that is missing. os_error: EOPNOTSUPP for io of version 2,
  // ENODEV for blkio of version 1, EACCES when its root group cannot be written.
  static Result<IoThrottle> find(const CgroupHierarchy& hierarchy);

  // Replaces the limits of the device. What waits is let go when they are lifted. `group`: whose
  // processes use the device; not looked at in version 1.
  Result<void> set(const Cgroup& group, dev_t device, const IoLimits& limits) const;

  // Version 1: the limits on loop devices that nothing is behind, which a process that was killed
  // has left. The next file behind such a device would have them, whosever it is.
  void clear_free_loop_devices() const;

 private:
  explicit IoThrottle(std::vector<std::string> directories)
      : directories_(std::move(directories)) {}

  std::vector<std::string> directories_;  // of version 1; none in version 2
};

}  // namespace pons::linux
