#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"

// Limits on what the files of one directory tree take on disk, where the file system counts by
// project (ext4 and XFS, mounted with prjquota).

namespace pons::linux {

struct ProjectLimits {
  std::uint64_t bytes = 0;   // 0 is refused: the kernel would read it as unlimited
  std::uint64_t inodes = 0;  // likewise
};

struct ProjectUsage {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  ProjectLimits limits;
};

// Whether the file system of this directory counts and enforces by project, for this process.
bool has_project_quota(int directory_fd);

// Makes an empty directory the root of a project: what is created below belongs to it.
Result<void> set_project(int directory_fd, std::uint32_t project);
Result<void> set_project_limits(int directory_fd, std::uint32_t project, ProjectLimits limits);
Result<ProjectUsage> project_usage(int directory_fd, std::uint32_t project);
// No limits any more: for a project whose directory is gone.
Result<void> clear_project_limits(int directory_fd, std::uint32_t project);

}  // namespace pons::linux
