#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

// Control groups of version 2 and of version 1 behind one type. Version 2 is one directory per
// group; version 1 is one directory per group in each controller's own hierarchy.

namespace pons::linux {

// What is not set is not limited.
struct CgroupLimits {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> swap_bytes;   // on top of memory_bytes
  std::optional<std::uint64_t> pids;         // threads count too
  std::optional<std::uint32_t> cpu_percent;  // 100 is one processor
};

// Nothing where the host does not count it.
struct CgroupUsage {
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> memory_cache_bytes;  // of these: pages of files
  std::optional<std::uint64_t> memory_peak_bytes;
  std::optional<std::uint64_t> cpu_usec;
  std::optional<std::uint64_t> pids;
  std::optional<std::uint64_t> oom_kills;
  std::optional<std::uint64_t> pids_refused;  // processes and threads beyond the limit
};

// kOneByOne is what is left where the kernel has no cgroup.kill (version 1, and before Linux 5.14).
enum class KillMethod : std::uint8_t { kAutomatic, kOneByOne };

struct CgroupMount {
  std::string directory;
  std::vector<std::string> controllers;
};

// One group. After its destructor the path does not exist, and therefore no process of it lives;
// should the kernel not let go within ten seconds, that is logged as an error.
class Cgroup {
 public:
  Cgroup(Cgroup&& other) noexcept = default;
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup();

  const std::string& name() const { return name_; }
  // For ChildOptions::cgroup_fd. -1 in version 1, where a process has to join after it started.
  int directory_fd() const;
  // 0: the calling process, which must have one thread only.
  Result<void> join(pid_t pid);
  // The calling process, which must have one thread only: what it allocates counts here from now
  // on. Also while the group is frozen, without stopping: kUnsupported where that cannot be
  // (version 2, or one hierarchy for both).
  Result<void> join_memory();

  // A limit that the host cannot enforce is kUnsupported.
  Result<void> set_limits(const CgroupLimits& limits);
  CgroupUsage usage() const;
  std::optional<std::uint64_t> process_count() const;  // the same as in usage(), for a fifth of it

  // Returns when nothing in it runs any more. Processes that cannot be frozen within half a second
  // run on, all of them.
  Result<void> freeze();
  bool is_frozen() const;  // or on the way to it
  Result<void> thaw();
  Result<void> kill_all(KillMethod method = KillMethod::kAutomatic);
  Result<void> destroy();  // what the destructor does, for callers that want to know
  // The directories that make it up, which are the caller's to remove from now on.
  std::vector<std::string> give_up() &&;

 private:
  friend class CgroupHierarchy;
  struct Directory {
    std::string path;
    UniqueFd fd;
    std::vector<std::string> controllers;
  };
  Cgroup(int version, std::string name) : version_(version), name_(std::move(name)) {}

  const Directory* find_directory(std::string_view controller) const;
  Result<void> write_value(std::string_view controller, const char* file,
                           const std::string& value) const;
  std::optional<std::string> find_value(std::string_view controller, const char* file) const;
  std::optional<std::uint64_t> find_number(std::string_view controller, const char* file) const;
  Result<void> set_memory_v1(const CgroupLimits& limits);
  Result<void> await_freezer(std::string_view wanted) const;
  Result<void> kill_one_by_one();

  int version_;
  std::string name_;
  std::vector<Directory> directories_;
};

// Where groups are made: below the group this process runs in, so that its own limits hold.
class CgroupHierarchy {
 public:
  static Result<CgroupHierarchy> detect();  // changes nothing
  // The same with the texts of /proc/self/mountinfo and /proc/self/cgroup given.
  static Result<CgroupHierarchy> detect_from(std::string_view mountinfo,
                                             std::string_view own_groups);
  // A place known by other means. Version 2 has one mount.
  static CgroupHierarchy from_mounts(int version, std::vector<CgroupMount> mounts);

  int version() const { return version_; }
  std::vector<std::string> controllers() const;
  std::vector<std::string> directories() const;  // in which groups are made
  // Of the blkio controller in version 1, which has no groups made in it: the root group as far as
  // it is mounted, and this process's own where that is another.
  const std::vector<std::string>& block_directories() const { return block_directories_; }

  // Version 2: a group with processes cannot pass controllers on. Moves this process into a group
  // of its own beside the future ones and enables the controllers for them. Call it first, once,
  // before there are children. Does nothing in version 1.
  Result<void> delegate();

  // kConflict when the name exists. `name` is 1 to 128 characters of [A-Za-z0-9_-].
  Result<Cgroup> create(const std::string& name, const CgroupLimits& limits) const;
  // Takes over a group that a former run left behind.
  Result<Cgroup> adopt(const std::string& name) const;
  Result<std::vector<std::string>> find_names(const std::string& prefix) const;

 private:
  CgroupHierarchy(int version, std::vector<CgroupMount> mounts)
      : version_(version), mounts_(std::move(mounts)) {}
  Result<void> enable_controllers() const;

  int version_;
  std::vector<CgroupMount> mounts_;
  std::vector<std::string> block_directories_;
};

}  // namespace pons::linux
