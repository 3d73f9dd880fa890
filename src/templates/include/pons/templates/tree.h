#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"

namespace pons::templates {

struct TreeLimits {
  std::uint64_t files = 2'000'000;
  std::uint64_t bytes = 20ULL << 30;
  std::uint32_t depth = 512;  // one open descriptor per level
  int interrupt_fd = -1;      // readable: stop, with kUnavailable
};

struct TreeSummary {
  std::string digest;  // 64 hex digits
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;  // of regular files; one with several names counts once
};

enum class OpaqueMarks : std::uint8_t {
  kRead,     // user.overlay.opaque and trusted.overlay.opaque mean the same
  kPromote,  // the first becomes the second; needs CAP_SYS_ADMIN
};

// SHA-256 over a canonical listing of what is below the directory: names, types, modes, owners,
// contents, link targets, capabilities and user attributes, whiteouts and opaque marks; no times.
// Follows no link and opens nothing but regular files and directories, so the tree may be hostile
// as long as nobody changes it meanwhile.
Result<TreeSummary> digest_tree(int directory_fd, OpaqueMarks marks, const TreeLimits& limits = {});

// The error of work that was told to stop, or nothing.
Result<void> check_interrupt(int interrupt_fd);

// Deletes the tree at a path and the path. Follows no link; one that is gone is no error.
Result<void> remove_tree(const std::string& path);

}  // namespace pons::templates
