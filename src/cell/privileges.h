#pragma once

namespace pons::cell {

// CAP_SYS_ADMIN is there for the hostname only. Gives it up for good: from the bounding set, so
// that no program started later can get it, and from the process itself. 0 or an errno; 0 also for
// a process that never had it.
int drop_sys_admin();

// From the bounding set alone: what a child does before it starts a program.
int drop_sys_admin_bounding();

}  // namespace pons::cell
