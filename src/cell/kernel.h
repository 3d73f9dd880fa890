#pragma once

#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

// What the kernel offers and the C library without kernel headers does not name.

#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace pons::cell {

inline constexpr int kCapSysAdmin = 21;
inline constexpr uint32_t kCapabilityVersion3 = 0x20080522;
inline constexpr unsigned kRenameNoReplace = 1;

struct CapabilityHeader {
  uint32_t version;
  int pid;
};

struct CapabilityData {
  uint32_t effective;
  uint32_t permitted;
  uint32_t inheritable;
};

struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
};

}  // namespace pons::cell
