// System calls that are about the machine, and ways around the filter that refuses them.

#include "attack.h"

#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/swap.h>
#include <sys/timex.h>
#include <time.h>

#define REFUSED(call)                                           \
  do {                                                          \
    const long outcome_ = (call);                               \
    if (outcome_ >= 0) return broken(#call " = %ld", outcome_); \
  } while (0)

static char zeros[4096];

static const char* io_uring(void) {
  REFUSED(syscall(SYS_io_uring_setup, 1, zeros));
  REFUSED(syscall(SYS_io_uring_enter, 0, 0, 0, 0, NULL, 0));
  REFUSED(syscall(SYS_io_uring_register, 0, 0, NULL, 0));
  return NULL;
}

static const char* userfaultfd_(void) {
  REFUSED(syscall(SYS_userfaultfd, 0));
  REFUSED(syscall(SYS_userfaultfd, 1));
  return NULL;
}

static const char* perf(void) {
  struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof event};
  event.exclude_kernel = 1;
  REFUSED(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
  return NULL;
}

static const char* bpf(void) {
  union bpf_attr map = {
      .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
  REFUSED(syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
  return NULL;
}

static const char* modules(void) {
  REFUSED(syscall(SYS_init_module, zeros, sizeof zeros, ""));
  REFUSED(syscall(SYS_finit_module, 0, "", 0));
  REFUSED(syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
  return NULL;
}

static const char* kexec(void) {
  REFUSED(syscall(SYS_kexec_load, 0, 0, NULL, 0));
  REFUSED(syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0));
  return NULL;
}

static const char* keyrings(void) {
  REFUSED(syscall(SYS_add_key, "user", "pons-escape", "x", 1, -3 /* session */));
  REFUSED(syscall(SYS_keyctl, 0 /* get id */, -3, 1));
  REFUSED(syscall(SYS_keyctl, 1 /* join session */, "pons-escape"));
  REFUSED(syscall(SYS_request_key, "user", "pons-escape", NULL, -3));
  return NULL;
}

static const char* kernel_log(void) {
  char text[64];
  REFUSED(syscall(SYS_syslog, 3 /* read all */, text, sizeof text));
  REFUSED(syscall(SYS_syslog, 10 /* size */, NULL, 0));
  return NULL;
}

static const char* machine(void) {
  REFUSED(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF,
                  NULL));
  REFUSED(syscall(SYS_swapon, "/tmp", 0));
  REFUSED(syscall(SYS_swapoff, "/tmp"));
  REFUSED(syscall(SYS_acct, NULL));
  REFUSED(syscall(SYS_quotactl, 0, NULL, 0, NULL));
  REFUSED(syscall(SYS_vhangup));
  REFUSED(syscall(SYS_setdomainname, "escape", 6));
#if defined(__x86_64__)
  REFUSED(syscall(SYS_iopl, 3));
  REFUSED(syscall(SYS_ioperm, 0x80, 1, 1));
  REFUSED(syscall(SYS_modify_ldt, 0, zeros, sizeof zeros));
#endif
  return NULL;
}

static const char* clocks(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  REFUSED(syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
  REFUSED(syscall(SYS_settimeofday, NULL, NULL));
  struct timex tick = {.modes = ADJ_TICK, .tick = 10000};
  REFUSED(syscall(SYS_adjtimex, &tick));
  REFUSED(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tick));
  return NULL;
}

static const char* handles(void) {
  struct {
    struct file_handle head;
    unsigned char bytes[128];
  } handle = {.head = {.handle_bytes = 128}};
  int mount = 0;
  const int named = name_to_handle_at(AT_FDCWD, "/usr", &handle.head, &mount, 0);
  if (named != 0) handle.head = (struct file_handle){.handle_bytes = 8, .handle_type = 1};
  const int root = open("/usr", O_RDONLY | O_DIRECTORY);
  REFUSED(open_by_handle_at(root, &handle.head, O_RDONLY));
  // The handle of an inode 2, the root of most disks.
  const unsigned inode[2] = {2, 0};
  handle.head.handle_bytes = 8;
  handle.head.handle_type = 1;
  memcpy(handle.head.f_handle, inode, sizeof inode);
  REFUSED(open_by_handle_at(root, &handle.head, O_RDONLY));
  return NULL;
}

static const char* personality_(void) {
  REFUSED(syscall(SYS_personality, 0x0400000 /* read implies exec */));
  REFUSED(syscall(SYS_personality, 0x0008 /* 32 bit */));
  return NULL;
}

static const char* scheduling(void) {
  const struct sched_param first = {.sched_priority = 99};
  REFUSED(sched_setscheduler(0, SCHED_FIFO, &first));
  REFUSED(sched_setscheduler(0, SCHED_RR, &first));
  REFUSED(setpriority(0, 0, -20));
  REFUSED(syscall(SYS_ioprio_set, 1, 0, 1 << 13 /* real time */));
  return NULL;
}

static const char* watching_all(void) {
  REFUSED(syscall(SYS_fanotify_init, 0, 0));
  REFUSED(syscall(SYS_fanotify_init, 0x200 /* report fid */, 0));
  REFUSED(syscall(SYS_lookup_dcookie, 0ULL, zeros, sizeof zeros));
  return NULL;
}

static const char* clone3_(void) {
  errno = 0;
  const long child = syscall(SYS_clone3, zeros, 88);
  if (child == 0) _exit(0);
  if (child > 0) return "a process";
  return errno == ENOSYS ? NULL : broken("errno %d: a library does not fall back to clone", errno);
}

#if defined(__x86_64__)
static long call_i386(long number, long first) {
  long outcome;
  __asm__ volatile("int $0x80"
                   : "=a"(outcome)
                   : "a"(number), "b"(first)
                   : "memory", "r8", "r9", "r10", "r11");
  return outcome;
}
static const char* i386_calls(void) {
  if (call_i386(20 /* getpid */, 0) > 0) return "getpid by int 0x80";
  if (call_i386(310 /* unshare */, CLONE_NEWUSER) == 0) return "unshare by int 0x80";
  return NULL;
}
static const char* x32_calls(void) {
  if (syscall(0x40000000 | SYS_getpid) > 0) return "getpid by its x32 number";
  if (syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER) == 0) return "unshare by its x32 number";
  return NULL;
}
#endif

const struct Attack kKernelAttacks[] = {
    {"io_uring", io_uring},
    {"userfaultfd", userfaultfd_},
    {"perf", perf},
    {"bpf", bpf},
    {"modules", modules},
    {"kexec", kexec},
    {"keyrings", keyrings},
    {"kernel_log", kernel_log},
    {"machine", machine},
    {"clocks", clocks},
    {"file_handles", handles},
    {"personality", personality_},
    {"scheduling", scheduling},
    {"watching_all", watching_all},
    {"clone3", clone3_},
#if defined(__x86_64__)
    {"i386_calls", i386_calls},
    {"x32_calls", x32_calls},
#endif
    {NULL, NULL},
};
