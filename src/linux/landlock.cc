#include "pons/linux/landlock.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "pons/linux/fd.h"

namespace pons::linux {
namespace {

// The kernel's interface, written out: the distribution's headers end at ABI 2.
struct RulesetAttributes {
  std::uint64_t handled_access_fs;
  std::uint64_t handled_access_net;  // ABI 4
  std::uint64_t scoped;              // ABI 6
};
struct [[gnu::packed]] PathBeneathAttributes {
  std::uint64_t allowed_access;
  std::int32_t parent_fd;
};
struct NetPortAttributes {
  std::uint64_t allowed_access;
  std::uint64_t port;
};

constexpr std::uint32_t kCreateRulesetVersion = 1;
constexpr int kRulePathBeneath = 1;
constexpr int kRuleNetPort = 2;

constexpr std::uint64_t kWriteFile = 1 << 1;
constexpr std::uint64_t kReadFile = 1 << 2;
constexpr std::uint64_t kReadDirectory = 1 << 3;
constexpr std::uint64_t kRemoveDirectory = 1 << 4;
constexpr std::uint64_t kRemoveFile = 1 << 5;
constexpr std::uint64_t kMakeDirectory = 1 << 7;
constexpr std::uint64_t kMakeRegular = 1 << 8;
constexpr std::uint64_t kMakeSocket = 1 << 9;
constexpr std::uint64_t kMakeSymlink = 1 << 12;
constexpr std::uint64_t kAllOfAbi1 = (1 << 13) - 1;  // execute and device nodes among them
constexpr std::uint64_t kRefer = 1 << 13;
constexpr std::uint64_t kTruncate = 1 << 14;
constexpr std::uint64_t kIoctlDevice = 1 << 15;
constexpr std::uint64_t kRightsOfFiles = kWriteFile | kReadFile | kTruncate;

constexpr std::uint64_t kBindTcp = 1 << 0;
constexpr std::uint64_t kConnectTcp = 1 << 1;
constexpr std::uint64_t kScopeAll = 3;  // abstract unix sockets, signals

std::uint64_t rights_handled_by(int abi) {
  std::uint64_t rights = kAllOfAbi1;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDevice;
  return rights;
}

std::uint64_t rights_of(PathAccess access) {
  switch (access) {
    case PathAccess::kReadFile:
      return kReadFile;
    case PathAccess::kReadTree:
      return kReadFile | kReadDirectory;
    case PathAccess::kReadWriteTree:
      return kReadFile | kReadDirectory | kWriteFile | kTruncate | kRemoveDirectory | kRemoveFile |
             kMakeDirectory | kMakeRegular | kMakeSocket | kMakeSymlink | kRefer;
  }
  return 0;
}

Result<void> add_path(int ruleset, const PathRule& rule, std::uint64_t handled) {
  const UniqueFd path = TRY(open_file(rule.path, O_PATH));
  struct stat status{};
  if (fstat(path.get(), &status) != 0) return os_error("inspect path", rule.path);
  std::uint64_t rights = rights_of(rule.access) & handled;
  if (S_ISDIR(status.st_mode)) {
    // The kernel would grant reading every file below.
    if (rule.access == PathAccess::kReadFile)
      return make_error(ErrorCode::kInvalid, "add landlock rule",
                        rule.path + " is a directory; ask for the tree");
  } else {
    rights &= kRightsOfFiles;  // the kernel refuses rights of directories on a file
  }
  const PathBeneathAttributes attributes{.allowed_access = rights, .parent_fd = path.get()};
  if (syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &attributes, 0) != 0)
    return os_error("add landlock rule", rule.path);
  return {};
}

Result<void> add_ports(int ruleset, const std::vector<std::uint16_t>& ports, std::uint64_t right) {
  for (const std::uint16_t port : ports) {
    const NetPortAttributes attributes{.allowed_access = right, .port = port};
    if (syscall(SYS_landlock_add_rule, ruleset, kRuleNetPort, &attributes, 0) != 0)
      return os_error("add landlock rule", "tcp port " + std::to_string(port));
  }
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, kCreateRulesetVersion);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

Result<LandlockReport> restrict_with_landlock(const LandlockRules& rules, int abi_highest) {
  const int abi = std::min(landlock_abi(), abi_highest);
  if (abi <= 0) return LandlockReport{};
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    return make_error(ErrorCode::kInvalid, "restrict with landlock", "set no_new_privs first");

  RulesetAttributes attributes{
      .handled_access_fs = rights_handled_by(abi), .handled_access_net = 0, .scoped = 0};
  std::size_t size = sizeof attributes.handled_access_fs;
  if (abi >= 4) {
    attributes.handled_access_net = kBindTcp | (rules.any_tcp_connect ? 0 : kConnectTcp);
    size = offsetof(RulesetAttributes, scoped);
  }
  if (abi >= 6) {
    attributes.scoped = kScopeAll;
    size = sizeof attributes;
  }
  const UniqueFd ruleset(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return os_error("create landlock ruleset");
  for (const PathRule& rule : rules.paths)
    TRY_VOID(add_path(ruleset.get(), rule, attributes.handled_access_fs));
  if (abi >= 4) {
    if (!rules.any_tcp_connect)
      TRY_VOID(add_ports(ruleset.get(), rules.tcp_connect_ports, kConnectTcp));
    TRY_VOID(add_ports(ruleset.get(), rules.tcp_bind_ports, kBindTcp));
  }
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return os_error("restrict with landlock");
  return LandlockReport{.abi = abi,
                        .filesystem = true,
                        .truncate = abi >= 3,
                        .ioctl_dev = abi >= 5,
                        .network = abi >= 4,
                        .scoped = abi >= 6};
}

}  // namespace pons::linux
