// Namespaces, mounts and roots.

#include "attack.h"

#include <dirent.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { kNewTime = 0x80 };

int mount(const char* source, const char* target, const char* type, unsigned long flags,
          const void* data);
int umount2(const char* target, int flags);

static const struct {
  const char* name;
  unsigned long flag;
} kKinds[] = {{"user", CLONE_NEWUSER},     {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID},
              {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC},  {"uts", CLONE_NEWUTS},
              {"cgroup", CLONE_NEWCGROUP}, {"time", kNewTime}};
// Bits that the kernel ignores or that make other checks look elsewhere.
static const unsigned long kOddBits[] = {0, CLONE_FS | CLONE_FILES, 1UL << 40,
                                         0xffffffff00000000UL};

static const char* unshare_(void) {
  for (size_t kind = 0; kind < sizeof kKinds / sizeof *kKinds; ++kind)
    for (size_t odd = 0; odd < sizeof kOddBits / sizeof *kOddBits; ++odd)
      if (syscall(SYS_unshare, kKinds[kind].flag | kOddBits[odd]) == 0)
        return broken("unshare %s with %lx", kKinds[kind].name, kOddBits[odd]);
  return NULL;
}

static const char* clone_(void) {
  for (size_t kind = 0; kind < sizeof kKinds / sizeof *kKinds; ++kind)
    for (size_t odd = 0; odd < sizeof kOddBits / sizeof *kOddBits; ++odd) {
      if (kKinds[kind].flag == kNewTime) continue;  // the low bits of clone are a signal
      const long child =
          syscall(SYS_clone, kKinds[kind].flag | kOddBits[odd] | SIGCHLD, NULL, NULL, NULL, NULL);
      if (child == 0) _exit(0);
      if (child > 0) {
        waitpid((pid_t)child, NULL, 0);
        return broken("clone %s with %lx", kKinds[kind].name, kOddBits[odd]);
      }
    }
  return NULL;
}

static const char* setns_(void) {
  DIR* processes = opendir("/proc");
  for (struct dirent* process; (process = readdir(processes)) != NULL;) {
    char path[600];
    snprintf(path, sizeof path, "/proc/%s/ns", process->d_name);
    DIR* spaces = opendir(path);
    if (spaces == NULL) continue;
    for (struct dirent* space; (space = readdir(spaces)) != NULL;) {
      const int fd = openat(dirfd(spaces), space->d_name, O_RDONLY | O_CLOEXEC);
      if (fd >= 0 && syscall(SYS_setns, fd, 0) == 0)
        return broken("setns %s/%s", path, space->d_name);
      if (fd >= 0) close(fd);
    }
    closedir(spaces);
  }
  closedir(processes);
  const int leader = (int)syscall(SYS_pidfd_open, 1, 0);
  if (leader >= 0 && syscall(SYS_setns, leader, CLONE_NEWNS | CLONE_NEWPID) == 0)
    return "setns by pidfd of 1";
  return NULL;
}

static const char* mounts(void) {
  mkdir("/tmp/escape-mount", 0777);
  static const char* const kTypes[] = {"tmpfs",   "proc",     "sysfs",       "cgroup",
                                       "cgroup2", "devtmpfs", "overlay",     "ramfs",
                                       "debugfs", "mqueue",   "binfmt_misc", "fuse"};
  for (size_t type = 0; type < sizeof kTypes / sizeof *kTypes; ++type)
    if (mount("none", "/tmp/escape-mount", kTypes[type], 0, NULL) == 0) return kTypes[type];
  if (mount("/proc", "/tmp/escape-mount", NULL, 4096 /* bind */, NULL) == 0) return "bind";
  if (mount("/", "/", NULL, 1 << 20 /* shared */ | 16384, NULL) == 0) return "propagation";
  if (mount("none", "/proc/sys", NULL, 32 | 4096, NULL) == 0) return "/proc/sys writable";
  if (mount("none", "/usr", NULL, 32 | 4096, NULL) == 0) return "/usr writable";
  if (mount("none", "/", NULL, 32 | 4096, NULL) == 0) return "/ with setuid and devices";
  return NULL;
}

static const char* unmounts(void) {
  static const char* const kPlaces[] = {"/proc/kcore",
                                        "/proc/keys",
                                        "/proc/sysrq-trigger",
                                        "/proc/timer_list",
                                        "/proc/sys",
                                        "/proc/bus",
                                        "/proc",
                                        "/sys",
                                        "/dev",
                                        "/usr",
                                        "/"};
  for (size_t place = 0; place < sizeof kPlaces / sizeof *kPlaces; ++place)
    for (int flags = 0; flags <= 8; ++flags)
      if (umount2(kPlaces[place], flags) == 0) return kPlaces[place];
  return NULL;
}

static const char* new_mounts(void) {
  if (syscall(SYS_fsopen, "tmpfs", 0) >= 0) return "fsopen";
  if (syscall(SYS_fspick, AT_FDCWD, "/", 0) >= 0) return "fspick";
  if (syscall(SYS_open_tree, AT_FDCWD, "/proc", 1 /* clone */) >= 0) return "open_tree, a copy";
  if (syscall(SYS_open_tree, AT_FDCWD, "/", 0) >= 0) return "open_tree";
  if (syscall(SYS_move_mount, AT_FDCWD, "/proc/sys", AT_FDCWD, "/tmp", 0) == 0) return "move_mount";
  struct mount_attr writable = {.attr_clr =
                                    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
  if (syscall(SYS_mount_setattr, AT_FDCWD, "/proc/sys", 0, &writable, sizeof writable) == 0)
    return "mount_setattr";
  if (syscall(SYS_fsmount, 0, 0, 0) >= 0) return "fsmount";
  if (syscall(SYS_pivot_root, ".", ".") == 0) return "pivot_root";
  return NULL;
}

// A directory held open from before, and then up and up.
static const char* chroot_break(void) {
  struct stat before, after;
  const int held = open("/", O_RDONLY | O_DIRECTORY);
  mkdir("/tmp/escape-root", 0777);
  if (chroot("/tmp/escape-root") != 0 && fchdir(held) != 0) return "the directory is gone";
  if (fchdir(held) != 0) return NULL;
  for (int step = 0; step < 256; ++step)
    if (chdir("..") != 0) break;
  if (fstat(held, &before) != 0 || stat(".", &after) != 0) return NULL;
  if (before.st_ino != after.st_ino || before.st_dev != after.st_dev) return "above the root";
  if (chroot(".") != 0) return NULL;
  return open(host_word("HOST_FILE"), O_RDONLY) >= 0 ? "a file of the host" : NULL;
}

static const char* cgroups(void) {
  char line[4096], text[64];
  FILE* own = fopen("/proc/self/cgroup", "re");
  while (own != NULL && fgets(line, sizeof line, own) != NULL)
    if (strstr(line, "/..") != NULL || strstr(line, "pons") != NULL)
      return broken("its place in the host's hierarchy: %.*s", (int)strcspn(line, "\n"), line);
  if (own != NULL) fclose(own);
  FILE* table = fopen("/proc/self/mountinfo", "re");
  while (table != NULL && fgets(line, sizeof line, table) != NULL)
    if (strstr(line, " - cgroup") != NULL) return "a hierarchy is mounted";
  if (table != NULL) fclose(table);
  if (mkdir("/sys/fs/cgroup/escape", 0755) == 0) return "a group below /sys/fs/cgroup";
  snprintf(text, sizeof text, "%d", (int)getpid());
  static const char* const kFiles[] = {"/sys/fs/cgroup/cgroup.procs",
                                       "/sys/fs/cgroup/memory/cgroup.procs",
                                       "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/pids/tasks"};
  for (size_t file = 0; file < sizeof kFiles / sizeof *kFiles; ++file) {
    const int fd = open(kFiles[file], O_WRONLY | O_CREAT, 0644);
    if (fd >= 0) return kFiles[file];
  }
  return NULL;
}

const struct Attack kNamespaceAttacks[] = {
    {"unshare", unshare_},
    {"clone", clone_},
    {"setns", setns_},
    {"mounts", mounts},
    {"unmounts", unmounts},
    {"new_mounts", new_mounts},
    {"chroot_break", chroot_break},
    {"cgroups", cgroups},
    {NULL, NULL},
};
