#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pons/base/result.h"

namespace pons::linux {

// What this kernel offers; 0 when Landlock is absent or switched off.
int landlock_abi();

// What a rule grants below its path. Executing, device nodes, FIFOs and ioctl on devices are never
// granted.
enum class PathAccess : std::uint8_t {
  kReadFile,       // one file
  kReadTree,       // files and directory listings; on a file, that file
  kReadWriteTree,  // also writing, creating, removing, and renaming between directories
};

struct PathRule {
  std::string path;
  PathAccess access;
};

struct LandlockRules {
  std::vector<PathRule> paths;
  std::vector<std::uint16_t> tcp_connect_ports;
  bool any_tcp_connect = false;
  std::vector<std::uint16_t> tcp_bind_ports;
};

// What the kernel enforces from now on. What it is too old for is false, and it is the caller's
// decision whether that is good enough.
struct LandlockReport {
  int abi = 0;
  bool filesystem = false;
  bool truncate = false;   // ABI 3: before, truncate(2) is free everywhere
  bool ioctl_dev = false;  // ABI 5
  bool network = false;    // ABI 4: bind, and connect unless any_tcp_connect
  bool scoped = false;     // ABI 6: abstract unix sockets and signals do not leave the domain
};

// Restricts the calling thread and what it starts later: call it before the first thread. Needs
// no_new_privs. Cannot be undone; descriptors that are already open keep working. A rule for a path
// that does not exist is an error that names it, and then nothing is restricted.
// `abi_highest` makes this kernel behave like an older one.
Result<LandlockReport> restrict_with_landlock(const LandlockRules& rules,
                                              int abi_highest = std::numeric_limits<int>::max());

}  // namespace pons::linux
