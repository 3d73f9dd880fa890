#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"

namespace pons::supervisor {

// What only the supervisor can see of a process: the roles cannot read /proc.
struct WatchedProcess {
  std::string_view name;
  pid_t pid = 0;  // 0: it is not running
  bool ready = false;
  std::uint64_t restarts = 0;
  std::uint64_t kept_descriptors = 0;
};
std::string process_page(const std::vector<WatchedProcess>& processes);

// Tells the front what the supervisor sees, again and again: strangers ask the front, and nobody
// but the operator asks the supervisor.
Task<> keep_telling_front(linux::Loop& loop, std::string front_socket,
                          std::function<std::string()> page);

}  // namespace pons::supervisor
