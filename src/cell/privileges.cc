#include "privileges.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernel.h"

namespace pons::cell {
namespace {

constexpr uint32_t kSysAdminBit = 1U << kCapSysAdmin;

bool read_capabilities(CapabilityData data[2]) {
  CapabilityHeader header{kCapabilityVersion3, 0};
  return syscall(SYS_capget, &header, data) == 0;
}

}  // namespace

int drop_sys_admin_bounding() {
  if (prctl(PR_CAPBSET_READ, kCapSysAdmin, 0, 0, 0) != 1) return 0;
  if (prctl(PR_CAPBSET_DROP, kCapSysAdmin, 0, 0, 0) == 0) return 0;
  const int error = errno;
  CapabilityData data[2] = {};
  // Without CAP_SETPCAP nothing can be dropped, and without CAP_SYS_ADMIN nothing has to be.
  return read_capabilities(data) && (data[0].permitted & kSysAdminBit) == 0 ? 0 : error;
}

int drop_sys_admin() {
  if (const int error = drop_sys_admin_bounding()) return error;
  CapabilityData data[2] = {};
  if (!read_capabilities(data)) return errno;
  data[0].effective &= ~kSysAdminBit;
  data[0].permitted &= ~kSysAdminBit;
  data[0].inheritable &= ~kSysAdminBit;
  CapabilityHeader header{kCapabilityVersion3, 0};
  return syscall(SYS_capset, &header, data) == 0 ? 0 : errno;
}

}  // namespace pons::cell
