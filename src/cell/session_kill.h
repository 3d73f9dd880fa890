#pragma once

#include <sys/types.h>

namespace pons::cell {

// Kills every process of the job whose first process is `leader`: its group, its session and all
// their descendants, wherever these have moved to. What has been adopted by the cell and has left
// the session is no longer the job's, unless it was asked to end before.
void kill_job_processes(pid_t leader);

// Sends SIGTERM to the group and to whoever left it, and remembers these for the kill: they are the
// job's also when the parents are gone by then by which they were found.
void ask_job_to_end(pid_t leader);

}  // namespace pons::cell
