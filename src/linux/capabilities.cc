#include "pons/linux/capabilities.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace pons::linux {
namespace {

constexpr int kCapabilityNumbers = 64;

// prctl reports EINVAL past the last capability this kernel knows.
CapabilitySet probe_set(int operation, unsigned long argument) {
  CapabilitySet set = 0;
  for (int number = 0; number < kCapabilityNumbers; ++number) {
    const auto value = static_cast<unsigned long>(number);
    const int held = operation == PR_CAPBSET_READ ? prctl(operation, value, 0, 0, 0)
                                                  : prctl(operation, argument, value, 0, 0);
    if (held < 0) break;
    if (held == 1) set |= capability(number);
  }
  return set;
}

// The kernel's version 3 interface: each set as two 32-bit halves, the low one first.
Result<void> write_sets(CapabilitySet effective, CapabilitySet permitted,
                        CapabilitySet inheritable) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2];
  for (int half = 0; half < 2; ++half) {
    const int shift = half * 32;
    data[half] = {.effective = static_cast<std::uint32_t>(effective >> shift),
                  .permitted = static_cast<std::uint32_t>(permitted >> shift),
                  .inheritable = static_cast<std::uint32_t>(inheritable >> shift)};
  }
  if (syscall(SYS_capset, &header, data) != 0) return os_error("set capabilities");
  return {};
}

// In as few calls as there are capabilities to lose: every sandbox comes through here.
Result<void> cut_bounding_set(CapabilitySet keep) {
  for (int number = 0; number < kCapabilityNumbers; ++number) {
    if ((keep & capability(number)) != 0 || prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0) continue;
    const int error = errno;
    if (error == EINVAL) return {};  // past the last one that this kernel knows
    if (prctl(PR_CAPBSET_READ, number, 0, 0, 0) <= 0) continue;  // not held, or not known
    if (error == EPERM && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return {};
    return os_error("cut capability bounding set",
                    fmt::format("capability {}; set no_new_privs first", number), error);
  }
  return {};
}

struct HeldSets {
  CapabilitySet effective;
  CapabilitySet permitted;
  CapabilitySet inheritable;
};

Result<HeldSets> read_sets() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return os_error("read capabilities");
  const auto join = [](std::uint32_t low, std::uint32_t high) {
    return (static_cast<CapabilitySet>(high) << 32) | low;
  };
  return HeldSets{.effective = join(data[0].effective, data[1].effective),
                  .permitted = join(data[0].permitted, data[1].permitted),
                  .inheritable = join(data[0].inheritable, data[1].inheritable)};
}

}  // namespace

Result<ProcessCapabilities> current_capabilities() {
  const HeldSets held = TRY(read_sets());
  return ProcessCapabilities{
      .effective = held.effective,
      .permitted = held.permitted,
      .inheritable = held.inheritable,
      .bounding = probe_set(PR_CAPBSET_READ, 0),
      .ambient = probe_set(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET),
  };
}

Result<void> keep_only_capabilities(CapabilitySet keep) {
  // First, while CAP_SETPCAP is still there.
  TRY_VOID(cut_bounding_set(keep));
  const HeldSets before = TRY(read_sets());
  // Lowering a capability in permitted or inheritable also lowers it in the ambient set.
  const CapabilitySet kept = before.permitted & keep;
  TRY_VOID(write_sets(kept, kept, before.inheritable & keep));
  const HeldSets after = TRY(read_sets());
  if (((after.effective | after.permitted | after.inheritable) & ~keep) != 0)
    return make_error(ErrorCode::kDenied, "drop capabilities", "the kernel kept some of them");
  return {};
}

Result<void> become_user(uid_t uid, gid_t gid, CapabilitySet keep) {
  const ProcessCapabilities before = TRY(current_capabilities());
  if (keep != 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return os_error("keep capabilities");
  if (setgroups(0, nullptr) != 0) return os_error("drop supplementary groups");
  if (setresgid(gid, gid, gid) != 0) return os_error("set group", fmt::format("gid {}", gid));
  if (setresuid(uid, uid, uid) != 0) return os_error("set user", fmt::format("uid {}", uid));
  if (keep != 0) {
    const CapabilitySet kept = before.permitted & keep;
    TRY_VOID(write_sets(kept, kept, before.inheritable & keep));
    if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0) return os_error("keep capabilities");
  }

  uid_t uids[3];
  gid_t gids[3];
  if (getresuid(&uids[0], &uids[1], &uids[2]) != 0 || getresgid(&gids[0], &gids[1], &gids[2]) != 0)
    return os_error("read user ids");
  for (int index = 0; index < 3; ++index) {
    if (uids[index] != uid || gids[index] != gid)
      return make_error(ErrorCode::kDenied, "set user", "the kernel kept the old user");
  }
  const ProcessCapabilities after = TRY(current_capabilities());
  if (getgroups(0, nullptr) != 0 || (uid != 0 && (after.permitted & ~keep) != 0))
    return make_error(ErrorCode::kDenied, "set user", "the kernel kept groups or capabilities");
  return {};
}

}  // namespace pons::linux
