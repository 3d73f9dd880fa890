#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
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

// Of that only what a program needs that is alone: accounts, names, places to write to and to mount
// on, and /workspace.
void add_bare_root(Skeleton& skeleton, const std::string& shell);

// The directories above it too, where there are none yet.
void add_with_parents(Skeleton& skeleton, const std::string& path, SkeletonEntry entry);

// Copies from the host's /etc what programs in /usr want to find there. Never what is not readable
// by every user, never a link that leads out of /etc and /usr.
Result<void> add_host_files(Skeleton& skeleton, const std::string& host_root);

// What apt needs to know of the host whose /usr it is: where packages come from, without users and
// passwords, and which are installed. Never what is not readable by every user.
Result<void> add_host_packages(Skeleton& skeleton, const std::string& host_root);

// A regular file that every user of the host may read; nothing when it is not one, or longer.
struct PublicFile {
  std::string content;
  bool is_program = false;
};
Result<std::optional<PublicFile>> read_public_file(const std::string& path, std::size_t bytes_max);

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
