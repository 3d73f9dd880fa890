#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builtins.h"
#include "kernel.h"
#include "privileges.h"
#include "text.h"

namespace pons::cell {
namespace {

constexpr int kScriptDescriptor = 9;
constexpr int kReadyDescriptor = 8;
constexpr size_t kPathBytes = 4096;

// Written by the child while the parent waits for it; both share the memory.
volatile Step failed_step;
volatile int failed_error;
char program_path[kPathBytes];

[[noreturn]] void fail(Step step, int error) {
  failed_step = step;
  failed_error = error;
  _exit(error);
}

void place_descriptors(const Launch& launch) {
  // Two of the sources may stand where a target goes, so they move out of the way first.
  int script = launch.script;
  int ready = launch.ready_line;
  if (script > 0) script = fcntl(script, F_DUPFD_CLOEXEC, 16);
  if (ready > 0) ready = fcntl(ready, F_DUPFD_CLOEXEC, 16);
  for (int i = 0; i < 3; ++i) {
    if (dup2(launch.streams->child[i], i) < 0) fail(Step::kPipes, errno);
  }
  unsigned first_closed = 3;
  if (launch.script > 0) {
    if (dup2(script, kScriptDescriptor) < 0) fail(Step::kPipes, errno);
    if (dup2(ready, kReadyDescriptor) < 0) fail(Step::kPipes, errno);
    if (syscall(SYS_close_range, 3U, 7U, 0U) != 0) fail(Step::kPipes, errno);
    first_closed = kScriptDescriptor + 1;
  }
  if (syscall(SYS_close_range, first_closed, ~0U, 0U) != 0) fail(Step::kPipes, errno);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void set_limits(const Launch& launch) {
  if (launch.open_files_max != 0) {
    const rlimit limit{launch.open_files_max, launch.open_files_max};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) fail(Step::kLimits, errno);
  }
  if (launch.file_bytes_max != 0) {
    const rlimit limit{launch.file_bytes_max, launch.file_bytes_max};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) fail(Step::kLimits, errno);
  }
}

// By the kernel's own calls: the library's want to tell other threads, through memory that is the
// parent's here.
void become(const User& user) {
  if (const int error = drop_sys_admin_bounding()) fail(Step::kIdentity, error);
  const bool already = user.uid == geteuid() && user.gid == getegid();
  if (syscall(SYS_setgroups, static_cast<size_t>(user.group_count), user.groups) != 0 &&
      !(already && errno == EPERM)) {
    fail(Step::kIdentity, errno);
  }
  if (syscall(SYS_setresgid, user.gid, user.gid, user.gid) != 0) fail(Step::kIdentity, errno);
  if (syscall(SYS_setresuid, user.uid, user.uid, user.uid) != 0) fail(Step::kIdentity, errno);
}

void enter_directory(const Launch& launch) {
  if (chdir(launch.directory) == 0) return;
  const int error = errno;
  if (!launch.directory_is_a_wish || chdir("/") != 0) fail(Step::kDirectory, error);
}

// A file without an interpreter line is a shell script, as for every shell and execvp.
void execute(const Launch& launch, const char* file) {
  execve(file, launch.argv, launch.environment);
  if (errno != ENOEXEC) return;
  char** argv = launch.argv - 1;
  char* const name = launch.argv[0];
  argv[0] = const_cast<char*>("/bin/sh");
  argv[1] = const_cast<char*>(file);
  execve(argv[0], argv, launch.environment);
  argv[1] = name;
}

[[noreturn]] void search_and_execute(const Launch& launch) {
  const char* name = launch.program != nullptr ? launch.program : launch.argv[0];
  if (strchr(name, '/') != nullptr) {
    execute(launch, name);
    fail(Step::kExecute, errno);
  }
  int error = ENOENT;
  Text rest = text_of(launch.path);
  bool more = true;
  while (more) {
    const size_t before = rest.size;
    const Text directory = cut_until(&rest, ':');
    more = directory.size < before;
    TextWriter path(program_path, sizeof program_path);
    if (directory.size > 0) path.add(directory).add_byte('/');
    const char* file = path.add(name).finish();
    if (file == nullptr) continue;
    // A third of the cost of finding out by executing it.
    if (access(file, F_OK) != 0 && errno == ENOENT) continue;
    execute(launch, file);
    if (errno == EACCES) error = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) fail(Step::kExecute, errno);
  }
  fail(Step::kExecute, error);
}

void prepare(const Launch& launch) {
  setsid();
  place_descriptors(launch);
  if (launch.terminal && ioctl(0, TIOCSCTTY, 0) != 0) fail(Step::kTerminal, errno);
  set_limits(launch);
  become(*launch.user);
  umask(022);
}

}  // namespace

pid_t launch_program(const Launch& launch, Failure* failure) {
  failed_step = Step::kNone;
  const pid_t pid = vfork();
  if (pid == 0) {
    reset_signals();
    prepare(launch);
    enter_directory(launch);
    search_and_execute(launch);
  }
  if (pid < 0) {
    *failure = {Step::kFork, errno};
    return 0;
  }
  if (failed_step == Step::kNone) return pid;
  *failure = {failed_step, failed_error};
  return 0;  // the one that failed is reaped like an orphan
}

pid_t launch_builtin(const Launch& launch, Failure* failure) {
  const pid_t pid = fork();
  if (pid == 0) {
    reset_signals();
    prepare(launch);
    if (chdir(launch.user->home) != 0 && chdir("/") != 0) _exit(errno);
    _exit(run_builtin(launch.argc, launch.argv));
  }
  if (pid > 0) return pid;
  *failure = {Step::kFork, errno};
  return 0;
}

}  // namespace pons::cell
