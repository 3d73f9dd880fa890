#pragma once

#include <sys/types.h>

namespace pons::cell {

// Kills every process of the job whose first process is `leader`: its group, its session and all
// their descendants, wherever these have moved to. What has been adopted by the cell and has left
// the session is no longer the job's.
void kill_job_processes(pid_t leader);

}  // namespace pons::cell
