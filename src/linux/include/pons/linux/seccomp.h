#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pons/base/result.h"

struct sock_filter;  // NOLINT(readability-identifier-naming): the kernel's name

namespace pons::linux {

// A condition on one argument of a system call. All 64 bits are compared: a caller who sets bits
// that the kernel would ignore does not match.
struct ArgumentRule {
  unsigned argument;  // 0 to 5
  enum class Compare : std::uint8_t { kEqual, kMaskedEqual } compare = Compare::kEqual;
  std::uint64_t mask = 0;  // kMaskedEqual: (argument & mask) == value
  std::uint64_t value = 0;
};

// Matches when every condition does. Several rules for one number are alternatives.
struct SyscallRule {
  int number;  // SYS_* of <sys/syscall.h>
  std::vector<ArgumentRule> arguments = {};
};

// A compiled filter. Calls of a foreign architecture (i386, x32) kill the process: the same numbers
// mean other calls there.
class SeccompFilter {
 public:
  // Only what is listed passes. `other_errno` names calls refused with another errno, all of them
  // or those that no condition lets pass: programs go on without clone3 when they see ENOSYS, and
  // give up when they see EPERM.
  static Result<SeccompFilter> allow_list(
      std::span<const SyscallRule> rules, int refused_errno = EPERM,
      std::span<const std::pair<int, int>> other_errno = {} /* {number, errno} */);

  static Result<SeccompFilter> deny_list(std::span<const SyscallRule> rules,
                                         int refused_errno = EPERM);

  SeccompFilter(SeccompFilter&& other) noexcept;
  SeccompFilter& operator=(SeccompFilter&& other) noexcept;
  ~SeccompFilter();

  // For every thread of this process and for good. Needs no_new_privs, or CAP_SYS_ADMIN.
  Result<void> install() const;

  std::size_t size() const;                      // instructions
  std::span<const sock_filter> program() const;  // as the kernel takes it

 private:
  explicit SeccompFilter(std::vector<sock_filter> program);
  std::vector<sock_filter> program_;
};

}  // namespace pons::linux
