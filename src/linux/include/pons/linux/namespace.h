#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::linux {

enum class NamespaceKind : std::uint8_t { kUser, kMount, kPid, kNet, kIpc, kUts, kCgroup };

// Holds a namespace open: it lives at least as long as this, even without a process in it.
class NamespaceFd {
 public:
  static Result<NamespaceFd> open_current(NamespaceKind kind);  // of the calling thread
  static Result<NamespaceFd> open_of(pid_t pid, NamespaceKind kind);
  static NamespaceFd adopt(UniqueFd fd, NamespaceKind kind) {
    return NamespaceFd(std::move(fd), kind);
  }

  // Moves the calling thread. A pid namespace takes effect for its next children. User and mount
  // namespaces can be entered only by a process with a single thread.
  Result<void> enter() const;
  int fd() const { return fd_.get(); }
  std::uint64_t id() const;  // inode: equal for the same namespace

 private:
  NamespaceFd(UniqueFd fd, NamespaceKind kind) : fd_(std::move(fd)), kind_(kind) {}
  UniqueFd fd_;
  NamespaceKind kind_;
};

Result<void> unshare_namespaces(std::initializer_list<NamespaceKind> kinds);

struct IdMap {
  std::uint32_t inside;
  std::uint32_t outside;
  std::uint32_t count;
};

// The ids of a process that has just made its user namespace; can be written once. A caller without
// CAP_SETGID may map one group and, by the kernel's rule, only after giving up setgroups(2) inside:
// that is done when it is needed.
Result<void> write_id_maps(pid_t pid, std::span<const IdMap> uid, std::span<const IdMap> gid);

// A new, empty network namespace. The caller stays where it is.
Result<UniqueFd> create_net_namespace();

// Runs `work` in a thread of its own inside the network namespace and waits for it. A socket opened
// there belongs to that namespace for ever.
Result<void> run_in_net_namespace(int namespace_fd, const std::function<Result<void>()>& work);

}  // namespace pons::linux
