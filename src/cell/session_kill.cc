#include "session_kill.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"

namespace pons::cell {
namespace {

constexpr size_t kProcessesMax = 8192;
constexpr int kRoundsMax = 8;

struct Process {
  pid_t pid;
  pid_t parent;
  pid_t group;
  pid_t session;
  uint64_t started;  // by the kernel's clock: a number may be another's later, but not with this
  bool dead;
  bool marked;
};

Process processes[kProcessesMax];
size_t process_count;

struct Asked {
  pid_t leader;  // 0: a free place
  pid_t pid;
  uint64_t started;
};

// Who was asked to end and is in another session than its job's leader. One for whom there is no
// place is found for as long as its parents live.
constexpr size_t kAskedMax = 1024;
Asked asked[kAskedMax];
size_t asked_high;  // one past the highest place ever used

bool was_asked(pid_t leader, const Process& process) {
  for (size_t i = 0; i < asked_high; ++i) {
    if (asked[i].leader == leader && asked[i].pid == process.pid &&
        asked[i].started == process.started) {
      return true;
    }
  }
  return false;
}

void remember(pid_t leader, const Process& process) {
  size_t place = 0;
  while (place < asked_high && asked[place].leader != 0) ++place;
  if (place == kAskedMax) return;
  asked[place] = {leader, process.pid, process.started};
  if (place == asked_high) ++asked_high;
}

void forget(pid_t leader) {
  for (size_t i = 0; i < asked_high; ++i) {
    if (asked[i].leader == leader) asked[i].leader = 0;
  }
}

pid_t pid_in(Text text) {
  uint64_t number = 0;
  return parse_number(text, 10, &number) && number < (1U << 30) ? static_cast<pid_t>(number) : 0;
}

// pid (name) state parent group session …; the name may hold anything, also ")".
bool read_process(int proc, const char* name, Process* process) {
  char path[32];
  char line[512];
  TextWriter writer(path, sizeof path);
  if (writer.add(name).add("/stat").finish() == nullptr) return false;
  const int file = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = read(file, line, sizeof line);
  close(file);
  ssize_t at = size - 1;
  while (at >= 0 && line[at] != ')') --at;
  if (at < 0 || at + 2 >= size) return false;
  Text rest{line + at + 2, static_cast<size_t>(size - at - 2)};
  const Text state = cut_until(&rest, ' ');
  *process = Process{};
  process->pid = pid_in(text_of(name));
  process->dead = equal(state, text_of("Z")) || equal(state, text_of("X"));
  process->parent = pid_in(cut_until(&rest, ' '));
  process->group = pid_in(cut_until(&rest, ' '));
  process->session = pid_in(cut_until(&rest, ' '));
  constexpr int kBetween = 15;  // tty_nr to itrealvalue
  for (int i = 0; i < kBetween; ++i) cut_until(&rest, ' ');
  parse_number(cut_until(&rest, ' '), 10, &process->started);
  return process->pid > 1;
}

void read_processes() {
  process_count = 0;
  const int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return;
  alignas(DirectoryEntry) char buffer[4096];
  for (;;) {
    const long size = syscall(SYS_getdents64, proc, buffer, sizeof buffer);
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      auto* entry = reinterpret_cast<DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (entry->name[0] < '1' || entry->name[0] > '9' || process_count == kProcessesMax) continue;
      if (read_process(proc, entry->name, &processes[process_count])) ++process_count;
    }
  }
  close(proc);
}

// /proc lists processes in the order of their numbers.
bool is_marked(pid_t pid) {
  size_t low = 0;
  size_t high = process_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (processes[middle].pid == pid) return processes[middle].marked;
    if (processes[middle].pid < pid) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return false;
}

void mark(pid_t leader) {
  for (size_t i = 0; i < process_count; ++i) {
    Process* process = &processes[i];
    process->marked = process->pid == leader || process->group == leader ||
                      process->session == leader || was_asked(leader, *process);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < process_count; ++i) {
      Process* process = &processes[i];
      if (process->marked || process->parent <= 1 || !is_marked(process->parent)) continue;
      process->marked = true;
      changed = true;
    }
  }
}

}  // namespace

void kill_job_processes(pid_t leader) {
  if (leader <= 1) return;
  // Parents are the only way to find who left the session: look before the first one dies.
  for (int round = 0; round < kRoundsMax; ++round) {
    read_processes();
    mark(leader);
    bool killed = false;
    for (size_t i = 0; i < process_count; ++i) {
      if (!processes[i].marked || processes[i].dead) continue;
      killed = true;
      kill(processes[i].pid, SIGKILL);
    }
    if (round == 0) kill(-leader, SIGKILL);
    if (!killed) break;
  }
  forget(leader);
}

void ask_job_to_end(pid_t leader) {
  if (leader <= 1) return;
  read_processes();
  mark(leader);
  // Looked up before anyone can act on it.
  for (size_t i = 0; i < process_count; ++i) {
    const Process& process = processes[i];
    if (!process.marked || process.dead || process.group == leader) continue;
    if (process.session != leader) remember(leader, process);
    kill(process.pid, SIGTERM);
  }
  kill(-leader, SIGTERM);
}

}  // namespace pons::cell
