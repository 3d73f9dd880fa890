#include "pons/linux/project_quota.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace pons::linux {
namespace {

constexpr std::uint64_t kQuotaBlock = 1024;

// Quotas by descriptor: no device node and no mount point has to be found.
long quota_call(int fd, unsigned command, std::uint32_t project, void* argument) {
  return syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, argument);
}

Result<void> write_limits(int fd, std::uint32_t project, const ProjectLimits& limits) {
  if_dqblk quota{};
  quota.dqb_bhardlimit = (limits.bytes + kQuotaBlock - 1) / kQuotaBlock;
  quota.dqb_ihardlimit = limits.inodes;
  quota.dqb_valid = QIF_LIMITS;
  if (quota_call(fd, Q_SETQUOTA, project, &quota) != 0)
    return os_error("set project quota", fmt::format("project {}", project));
  return {};
}

}  // namespace

bool has_project_quota(int directory_fd) {
  if_dqinfo info{};
  fsxattr attributes{};
  // Counting alone answers Q_GETQUOTA; only with limits in force does Q_GETINFO say so too.
  return quota_call(directory_fd, Q_GETINFO, 0, &info) == 0 &&
         ioctl(directory_fd, FS_IOC_FSGETXATTR, &attributes) == 0;
}

Result<void> set_project(int directory_fd, std::uint32_t project) {
  if (project == 0)
    return make_error(ErrorCode::kInvalid, "set project", "0 is the project of everything else");
  fsxattr attributes{};
  if (ioctl(directory_fd, FS_IOC_FSGETXATTR, &attributes) != 0) return os_error("read project");
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (ioctl(directory_fd, FS_IOC_FSSETXATTR, &attributes) != 0)
    return os_error("set project", fmt::format("project {}", project));
  return {};
}

Result<void> set_project_limits(int directory_fd, std::uint32_t project, ProjectLimits limits) {
  if (project == 0 || limits.bytes == 0 || limits.inodes == 0)
    return make_error(ErrorCode::kInvalid, "set project quota", "no limit is no limit");
  return write_limits(directory_fd, project, limits);
}

Result<void> clear_project_limits(int directory_fd, std::uint32_t project) {
  return write_limits(directory_fd, project, {});
}

Result<ProjectUsage> project_usage(int directory_fd, std::uint32_t project) {
  if_dqblk quota{};
  if (quota_call(directory_fd, Q_GETQUOTA, project, &quota) != 0)
    return os_error("read project quota", fmt::format("project {}", project));
  return ProjectUsage{
      .bytes = quota.dqb_curspace,
      .inodes = quota.dqb_curinodes,
      .limits = {.bytes = quota.dqb_bhardlimit * kQuotaBlock, .inodes = quota.dqb_ihardlimit}};
}

}  // namespace pons::linux
