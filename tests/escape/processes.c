// Other processes, above all PID 1; identity; descriptors.

#include "attack.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

const char* odd_descriptors(void) {
  DIR* listing = opendir("/proc/self/fd");
  if (listing == NULL) return "cannot be listed";
  for (struct dirent* entry; (entry = readdir(listing)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    const int fd = atoi(entry->d_name);
    if (fd <= 2 || fd == dirfd(listing)) continue;
    char target[256];
    const ssize_t size = readlinkat(dirfd(listing), entry->d_name, target, sizeof target - 1);
    target[size > 0 ? size : 0] = 0;
    return broken("%d is %s", fd, target);
  }
  closedir(listing);
  return NULL;
}

static const char* host_processes(void) {
  const char* word = host_word("HOST_PROCESS");
  DIR* processes = opendir("/proc");
  for (struct dirent* process; (process = readdir(processes)) != NULL;) {
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%s/cmdline", process->d_name);
    const int fd = open(path, O_RDONLY);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[size > 0 ? size : 0] = 0;
    if (size > 0 && memmem(text, (size_t)size, word, strlen(word)) != NULL)
      return path[0] ? "seen" : "";
  }
  closedir(processes);
  const int host = atoi(host_word("HOST_PID"));
  // Numbers inside are small; one of the host's that is taken here is another process.
  if (host > 10000 && kill(host, 0) == 0) return "its pid can be signalled";
  return NULL;
}

static const char* trace_first(void) {
  if (ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0) return "attach";
  if (ptrace(PTRACE_SEIZE, 1, NULL, NULL) == 0) return "seize";
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)0x400000, 1};
  if (syscall(SYS_process_vm_readv, 1, &here, 1, &there, 1, 0) >= 0) return "process_vm_readv";
  const int leader = (int)syscall(SYS_pidfd_open, 1, 0);
  if (leader >= 0 && syscall(SYS_pidfd_getfd, leader, 3, 0) >= 0) return "pidfd_getfd";
  if (syscall(SYS_kcmp, getpid(), 1, 2 /* files */, 0, 0) >= 0) return "kcmp";
  return NULL;
}

static const char* files_of_first(void) {
  static const char* const kRead[] = {"mem",
                                      "maps",
                                      "environ",
                                      "exe",
                                      "auxv",
                                      "pagemap",
                                      "smaps",
                                      "stack",
                                      "map_files",
                                      "fd",
                                      "fdinfo",
                                      "root/etc/passwd",
                                      "cwd/etc/passwd",
                                      "ns/mnt"};
  char path[64], text[16];
  for (size_t name = 0; name < sizeof kRead / sizeof *kRead; ++name) {
    snprintf(path, sizeof path, "/proc/1/%s", kRead[name]);
    const int fd = open(path, O_RDONLY);
    if (fd < 0) continue;
    struct stat info;
    fstat(fd, &info);
    if (S_ISDIR(info.st_mode) || read(fd, text, sizeof text) > 0) return broken("%s", path);
    close(fd);
  }
  for (int fd = 0; fd < 16; ++fd) {
    snprintf(path, sizeof path, "/proc/1/fd/%d", fd);
    if (open(path, O_RDWR) >= 0 || readlink(path, text, sizeof text) >= 0)
      return broken("%s", path);
  }
  return open("/proc/1/mem", O_RDWR) >= 0 ? "/proc/1/mem can be written" : NULL;
}

static const char* overwrite_programs(void) {
  if (open("/proc/1/exe", O_WRONLY) >= 0 || open("/proc/1/exe", O_PATH) >= 0) return "/proc/1/exe";
  const int self = open("/proc/self/exe", O_PATH);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", self);
  if (self >= 0 && open(path, O_WRONLY) >= 0) return "/proc/self/exe of a running program";
  // A program of the host that starts through a link to itself.
  const int shell = open("/bin/sh", O_PATH);
  snprintf(path, sizeof path, "/proc/self/fd/%d", shell);
  if (shell >= 0 && open(path, O_WRONLY) >= 0) return "/bin/sh through a descriptor";
  return NULL;
}

static const char* signals_to_first(void) {
  for (int number = 1; number <= 64; ++number) kill(1, number);
  syscall(SYS_tgkill, 1, 1, SIGKILL);
  usleep(20000);
  return kill(1, 0) != 0 && errno == ESRCH ? "PID 1 is gone" : NULL;
}

static const char* capabilities(void) {
  // What root of a rootless container has, less what undoes mounts, reaches devices or networks.
  static const int kGiven[] = {0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31};
  unsigned long long given = 0;
  for (size_t i = 0; i < sizeof kGiven / sizeof *kGiven; ++i) given |= 1ULL << kGiven[i];
  for (int number = 0; number < 64; ++number)
    if (prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1 && !(given >> number & 1))
      return broken("capability %d", number);
  return NULL;
}

static const char* new_privileges(void) {
  return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? NULL : "a program may gain privileges";
}

static const char* identity(void) {
  unsigned inside = 0, outside = 0, count = 0;
  FILE* map = fopen("/proc/self/uid_map", "re");
  if (map == NULL) return "no map of users";
  while (fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
    if (outside < 65536 || count > 65536)
      return broken("%u is %u of the host, of %u", inside, outside, count);
  fclose(map);
  return NULL;
}

static const char* locked_memory(void) {
  const size_t size = 256UL << 20;
  void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  return mlock(memory, size) == 0 ? "256 MB locked" : NULL;
}

static const char* shared_memory(void) {
  return shmget((key_t)atoi(host_word("OTHER_KEY")), 0, 0) >= 0 ? "another's shared memory" : NULL;
}

// Only meaningful with a terminal; the test gives one.
static const char* typing(void) {
  const char letter = 'x';
  const unsigned long kOdd[] = {0, 1UL << 32, 0xffffffff00000000UL, 1UL << 63};
  for (size_t odd = 0; odd < sizeof kOdd / sizeof *kOdd; ++odd)
    if (syscall(SYS_ioctl, 0, 0x5412UL | kOdd[odd], &letter) == 0)
      return broken("TIOCSTI with %lx", kOdd[odd]);
  return NULL;
}

static const char* filter_by_dump(void) {
  // The filter itself must not be readable, and a second one must not loosen it.
  return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 && prctl(PR_SET_SECCOMP, 0, 0, 0, 0) == 0
             ? "seccomp off"
             : NULL;
}

const struct Attack kProcessAttacks[] = {
    {"host_processes", host_processes},
    {"trace_first", trace_first},
    {"files_of_first", files_of_first},
    {"overwrite_programs", overwrite_programs},
    {"signals_to_first", signals_to_first},
    {"capabilities", capabilities},
    {"new_privileges", new_privileges},
    {"identity", identity},
    {"locked_memory", locked_memory},
    {"shared_memory", shared_memory},
    {"typing", typing},
    {"filter_off", filter_by_dump},
    {NULL, NULL},
};
