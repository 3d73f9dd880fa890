#pragma once

#include <sys/types.h>

#include "pons/cell/protocol.h"
#include "users.h"

namespace pons::cell {

struct Failure {
  Step step = Step::kNone;
  int os_error = 0;
};

// The ends of a job's standard streams. 0 is none: the cell keeps 0, 1 and 2 for itself. `own` are
// non-blocking; for a terminal all three of `child` are the same and `own` has no error stream.
struct Streams {
  int child[3];
  int own[3];
};

enum class InputMode { kEmpty, kOpen };

Failure open_pipes(InputMode input, int empty_input, Streams* streams);
Failure open_terminal(const User& user, uint16_t rows, uint16_t columns, Streams* streams);
void close_child_ends(Streams* streams, int empty_input);
void close_all(Streams* streams, int empty_input);

struct Launch {
  const User* user = nullptr;
  const char* directory = nullptr;
  bool directory_is_a_wish = false;  // "/" will do when it is not there
  bool terminal = false;
  const Streams* streams = nullptr;
  int script = 0;      // becomes descriptor 9
  int ready_line = 0;  // becomes descriptor 8
  uint64_t open_files_max = 0;
  uint64_t file_bytes_max = 0;
  char** argv = nullptr;  // argv[-1] belongs to the launch as well
  uint32_t argc = 0;
  char** environment = nullptr;
  const char* path = nullptr;     // where a program without a slash is looked for
  const char* program = nullptr;  // the file to run, when it is not the one argv[0] names
};

// Starts a program in a session of its own with exactly the descriptors above. Returns its pid, or
// 0 and the failure. The process shares the cell's memory until it runs the program, so nothing is
// copied.
pid_t launch_program(const Launch& launch, Failure* failure);

// Runs a program of the cell (builtin.h) in a copy of the process.
pid_t launch_builtin(const Launch& launch, Failure* failure);

}  // namespace pons::cell
