#pragma once

#include <map>
#include <string>

#include "pons/base/result.h"
#include "pons/sandbox/provider.h"
#include "pons/spawner/protocol.h"

namespace pons::sandbox {

// What a writable layer in memory may take, with what the kernel notes about each of its files: the
// memory limit less 32 MiB for processes and less what /dev/shm may take, so that a full disk is
// ENOSPC and never the end of a process.
std::uint64_t memory_disk_room(std::uint64_t memory_bytes);

// The limits with every default filled in; kInvalid names the field and what to do.
Result<spawner::SandboxLimits> resolve_limits(const Limits& limits);

void clear_io_limits(Limits& limits);

// New limits for a sandbox whose file system stands: in memory it keeps its size, on disk it may
// grow and its inodes with it. Puts what holds from now on into `wanted`.
Result<void> settle_disk(const Limits& asked, const spawner::SandboxLimits& have,
                         spawner::SandboxLimits& wanted);
// What the spawner said about a disk, with what to do.
Error explain_disk(Error error);

Result<void> check_sandbox_id(std::string_view id);
Result<void> check_job_id(std::string_view id);
Result<void> check_template_name(std::string_view name);
Result<void> check_labels(const std::map<std::string, std::string>& labels);
Result<void> check_create_request(const CreateRequest& request);

}  // namespace pons::sandbox
