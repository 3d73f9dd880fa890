#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::templates {

// A small tree in memory: by path without a leading slash, so parents come before children.
struct SkeletonEntry {
  enum class Kind : std::uint8_t { kDirectory, kFile, kLink } kind = Kind::kDirectory;
  mode_t mode = 0755;
  uid_t owner = 0;      // and group
  std::string content;  // or the link's target
};
using Skeleton = std::map<std::string, SkeletonEntry>;

inline constexpr uid_t kUserId = 1000;

// What does not depend on the host.
void add_fixed_files(Skeleton& skeleton, const std::string& shell);

// Copies from the host's /etc what programs in /usr want to find there. Never what is not readable
// by every user, never a link that leads out of /etc and /usr.
Result<void> add_host_files(Skeleton& skeleton, const std::string& host_root);

// bin, sbin, lib…: links as on the host, or mount points where the host has directories.
void add_program_links(Skeleton& skeleton, const std::string& host_root);

std::string digest_of(const Skeleton& skeleton);
Result<void> write_skeleton(const Skeleton& skeleton, const std::string& directory);

// Makes it the layer called `kind`, which is a link to the latest of its kind, and returns the path
// of the tree. When it is that already, nothing happens. Earlier ones stay for the sandboxes that
// stand on them; the oldest go.
Result<std::string> publish_skeleton(const std::string& state_dir, std::string_view kind,
                                     const Skeleton& skeleton);

}  // namespace pons::templates
