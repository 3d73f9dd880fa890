#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

// Children that borrow the caller's memory, as after vfork(2), but on a stack of their own:
// starting one costs a tenth of a fork and copies no page, and between start and exec ordinary C++
// may run, allocate and write results where the caller sees them, because the caller stands still.
// For processes with a single thread only.

namespace pons::linux {

struct AsideOptions {
  std::uint64_t namespaces = 0;  // CLONE_NEW* flags
  int cgroup_fd = -1;            // directory of a v2 cgroup: the child never runs outside of it
};

struct AsideChild {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Runs `body` in a child that has its own copy of the working directory, root and namespaces, but
// shares memory and the descriptor table. Returns when the child has executed a program or ended;
// it is not reaped. Before it executes something the child must leave the shared table by
// unshare(CLONE_FILES).
Result<AsideChild> start_aside(const AsideOptions& options, const std::function<void()>& body);

// The same for work that ends by itself: enters namespaces, does something there, and is gone.
Result<void> run_aside(const std::function<Result<void>()>& work);

// The same when what comes last takes long and nobody needs to wait for it. Returns when `work` is
// done; then the child detaches what is mounted at its working directory, if that is what `work`
// asks for. The next call waits for it.
enum class AtEnd : std::uint8_t { kNothing, kUnmount };
Result<void> run_aside_and_unmount(const std::function<Result<AtEnd>()>& work);

}  // namespace pons::linux
