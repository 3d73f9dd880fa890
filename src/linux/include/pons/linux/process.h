#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "pons/base/clock.h"
#include "pons/base/result.h"

// What a process sets for itself, and what /proc tells about one.

namespace pons::linux {

Result<void> set_no_new_privileges();  // for good, and for everything executed later
// Others of the same user can neither trace it nor read its memory through /proc. Setting user ids
// and exec undo it.
Result<void> set_undumpable();
Result<void> disable_core_dumps();
Result<void> raise_descriptor_limit();  // the soft limit to the hard one

Result<std::uint64_t> resident_bytes(pid_t pid);
// Pages shared with other processes count in part (Pss): the sum over processes is what they use.
Result<std::uint64_t> proportional_bytes(pid_t pid);
struct ProcessFigures {
  Duration cpu{};  // in user and kernel mode
  std::uint64_t resident_bytes = 0;
  std::uint64_t threads = 0;
  Duration age{};                 // since it was started
  std::uint64_t descriptors = 0;  // open; 0: the kernel does not say (before 6.2)
};
Result<ProcessFigures> read_process_figures(pid_t pid);
std::string process_name(pid_t pid);  // empty when there is no such process

}  // namespace pons::linux
