// Files of the host and of the kernel, devices, and what a file can carry.

#include "attack.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static const char* host_files(void) {
  const char* path = host_word("HOST_FILE");
  char longer[4096];
  if (open(path, O_RDONLY) >= 0) return "by its path";
  snprintf(longer, sizeof longer, "/proc/1/root%s", path);
  if (open(longer, O_RDONLY) >= 0) return "through PID 1";
  snprintf(longer, sizeof longer, "/../../../../../../../..%s", path);
  if (open(longer, O_RDONLY) >= 0) return "by ..";
  snprintf(longer, sizeof longer, "/proc/self/cwd/../../../../../../..%s", path);
  return open(longer, O_RDONLY) >= 0 ? "by .. of the working directory" : NULL;
}

static const char* kernel_settings(void) {
  static const char* const kFiles[] = {"/proc/sys/kernel/core_pattern",
                                       "/proc/sys/kernel/hostname",
                                       "/proc/sys/kernel/modprobe",
                                       "/proc/sys/vm/overcommit_memory",
                                       "/proc/sys/kernel/sysrq",
                                       "/proc/sys/fs/file-max",
                                       "/proc/sys/kernel/domainname",
                                       "/proc/sys/net/ipv4/ip_forward",
                                       "/proc/sys/kernel/ns_last_pid",
                                       "/proc/sys/fs/binfmt_misc/register",
                                       "/proc/sys/kernel/randomize_va_space",
                                       "/proc/sys/kernel/shmmax"};
  for (size_t file = 0; file < sizeof kFiles / sizeof *kFiles; ++file)
    if (open(kFiles[file], O_WRONLY) >= 0) return kFiles[file];
  return NULL;
}

static const char* masked_files(void) {
  static const char* const kFiles[] = {
      "/proc/kcore",         "/proc/keys",        "/proc/key-users", "/proc/timer_list",
      "/proc/sched_debug",   "/proc/kmsg",        "/proc/kallsyms",  "/proc/interrupts",
      "/proc/latency_stats", "/proc/vmallocinfo", "/proc/slabinfo",  "/proc/kpagecount"};
  char text[16];
  for (size_t file = 0; file < sizeof kFiles / sizeof *kFiles; ++file) {
    const int fd = open(kFiles[file], O_RDONLY | O_NONBLOCK);
    if (fd >= 0 && read(fd, text, sizeof text) > 0) return kFiles[file];
  }
  if (open("/proc/sysrq-trigger", O_WRONLY) >= 0) return "/proc/sysrq-trigger";
  static const char* const kDirectories[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/scsi",
                                             "/proc/acpi"};
  for (size_t name = 0; name < sizeof kDirectories / sizeof *kDirectories; ++name) {
    DIR* listing = opendir(kDirectories[name]);
    for (struct dirent* entry; listing != NULL && (entry = readdir(listing)) != NULL;)
      if (entry->d_name[0] != '.') return kDirectories[name];
  }
  return NULL;
}

static const char* sys_writes(void) {
  static const char* const kFiles[] = {"/sys/kernel/uevent_helper",
                                       "/sys/power/state",
                                       "/sys/kernel/mm/ksm/run",
                                       "/sys/devices/system/cpu/cpu1/online",
                                       "/sys/kernel/debug/sched_features",
                                       "/sys/fs/cgroup/release_agent",
                                       "/sys/module/kernel/parameters/panic"};
  for (size_t file = 0; file < sizeof kFiles / sizeof *kFiles; ++file)
    if (open(kFiles[file], O_WRONLY) >= 0) return kFiles[file];
  if (open("/sys/escape", O_WRONLY | O_CREAT, 0644) >= 0) return "a file in /sys";
  if (mkdir("/sys/fs/escape", 0755) == 0) return "a directory in /sys";
  return chmod("/sys/devices/system/cpu", 0777) == 0 ? "mode of a directory in /sys" : NULL;
}

static const char* host_programs(void) {
  if (open("/usr/escape", O_WRONLY | O_CREAT, 0644) >= 0) return "a file in /usr";
  if (open("/bin/sh", O_WRONLY) >= 0) return "/bin/sh";
  if (unlink("/usr/bin/env") == 0) return "/usr/bin/env removed";
  if (chmod("/usr/bin/env", 04777) == 0) return "/usr/bin/env setuid";
  if (chown("/usr/bin/env", 0, 0) == 0) return "owner of /usr/bin/env";
  if (rename("/usr/bin", "/usr/nib") == 0) return "/usr/bin renamed";
  if (link("/usr/bin/env", "/tmp/escape-link") == 0) return "a hard link out of /usr";
  return setxattr("/usr/bin/env", "user.escape", "x", 1, 0) == 0 ? "an attribute of /usr/bin/env"
                                                                 : NULL;
}

// Held at the host's side: a lock on the host's own file must not be felt here.
static const char* host_locks(void) {
  const int fd = open(host_word("HOST_LOCKED"), O_RDONLY);
  if (fd < 0) return broken("%s is not there", host_word("HOST_LOCKED"));
  return flock(fd, LOCK_EX | LOCK_NB) != 0 ? "the lock of the host's process is felt" : NULL;
}

static const char* device_nodes(void) {
  static const struct {
    const char* name;
    mode_t kind;
    unsigned major, minor;
  } kNodes[] = {{"sda", S_IFBLK, 8, 0},      {"vda", S_IFBLK, 254, 0},   {"mem", S_IFCHR, 1, 1},
                {"kmsg", S_IFCHR, 1, 11},    {"fuse", S_IFCHR, 10, 229}, {"kvm", S_IFCHR, 10, 232},
                {"whiteout", S_IFCHR, 0, 0}, {"loop", S_IFBLK, 7, 0},    {"tun", S_IFCHR, 10, 200}};
  static const char* const kPlaces[] = {"/tmp", "/dev", "/dev/shm", "/var/tmp", "/root"};
  char path[64];
  for (size_t place = 0; place < sizeof kPlaces / sizeof *kPlaces; ++place)
    for (size_t node = 0; node < sizeof kNodes / sizeof *kNodes; ++node) {
      snprintf(path, sizeof path, "%s/escape-%s", kPlaces[place], kNodes[node].name);
      if (mknod(path, kNodes[node].kind | 0666, makedev(kNodes[node].major, kNodes[node].minor)) !=
          0)
        continue;
      if (open(path, O_RDONLY | O_NONBLOCK) >= 0) return broken("%s is open", path);
      // A whiteout on a memory file system is a name without a device.
      if (kNodes[node].major != 0) return broken("%s exists", path);
    }
  return NULL;
}

static const char* devices(void) {
  static const char* const kExpected[] = {"null",  "zero",   "full",   "random", "urandom",
                                          "tty",   "ptmx",   "pts",    "shm",    "fd",
                                          "stdin", "stdout", "stderr", ".",      ".."};
  DIR* listing = opendir("/dev");
  for (struct dirent* entry; (entry = readdir(listing)) != NULL;) {
    size_t name = 0;
    while (name < sizeof kExpected / sizeof *kExpected &&
           strcmp(kExpected[name], entry->d_name) != 0)
      ++name;
    if (name == sizeof kExpected / sizeof *kExpected) return broken("/dev/%s", entry->d_name);
  }
  if (open("/dev/escape", O_WRONLY | O_CREAT, 0644) >= 0) return "a file in /dev";
  if (chmod("/dev/null", 0600) == 0) return "mode of /dev/null";
  return NULL;
}

static const char* mount_flags(void) {
  struct statvfs info;
  static const struct {
    const char* path;
    unsigned long flags;
  } kPromised[] = {{"/", ST_NOSUID | ST_NODEV},         {"/proc", ST_NOSUID | ST_NODEV | ST_NOEXEC},
                   {"/tmp", ST_NOSUID | ST_NODEV},      {"/proc/sys", ST_RDONLY | ST_NOSUID},
                   {"/sys", ST_RDONLY | ST_NOSUID},     {"/dev/shm", ST_NOSUID | ST_NODEV},
                   {"/dev/pts", ST_NOSUID | ST_NOEXEC}, {"/dev", ST_RDONLY | ST_NOSUID}};
  for (size_t row = 0; row < sizeof kPromised / sizeof *kPromised; ++row)
    if (statvfs(kPromised[row].path, &info) == 0 &&
        (info.f_flag & kPromised[row].flags) != kPromised[row].flags)
      return broken("%s lacks %lx", kPromised[row].path, kPromised[row].flags & ~info.f_flag);
  return NULL;
}

static const char* shared_memory_size(void) {
  struct statvfs info;
  if (statvfs("/dev/shm", &info) != 0) return "not there";
  const unsigned long long bytes = (unsigned long long)info.f_blocks * info.f_frsize;
  return bytes == 0 || bytes > (512ULL << 20) || info.f_files > 1 << 20
             ? broken("%llu bytes", bytes)
             : NULL;
}

// Attributes by which an overlay would take a file for something else.
static const char* overlay_attributes(void) {
  mkdir("/tmp/escape-opaque", 0755);
  if (setxattr("/tmp/escape-opaque", "trusted.overlay.opaque", "y", 1, 0) == 0) return "opaque";
  if (setxattr("/tmp/escape-opaque", "trusted.overlay.redirect", "/etc", 4, 0) == 0)
    return "redirect";
  return NULL;
}

const struct Attack kFileAttacks[] = {
    {"host_files", host_files},
    {"kernel_settings", kernel_settings},
    {"masked_files", masked_files},
    {"sys_writes", sys_writes},
    {"host_programs", host_programs},
    {"host_locks", host_locks},
    {"device_nodes", device_nodes},
    {"devices", devices},
    {"mount_flags", mount_flags},
    {"shared_memory_size", shared_memory_size},
    {"overlay_attributes", overlay_attributes},
    {NULL, NULL},
};
