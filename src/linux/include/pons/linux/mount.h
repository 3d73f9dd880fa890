#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/unique_handle.h"
#include "pons/linux/fd.h"

// Mounts by descriptor (open_tree, fsopen, fsmount, mount_setattr, move_mount): a mount is made and
// restricted where no process can see it, and appears complete or not at all.

namespace pons::linux {

enum class MountScope : std::uint8_t { kOneMount, kWholeTree };

struct MountAttributes {
  bool read_only = false;
  bool no_suid = false;
  bool no_exec = false;
  bool no_dev = false;
  MountScope scope = MountScope::kOneMount;
  // Owners appear as this user namespace maps them; the files themselves do not change.
  int idmap_user_namespace_fd = -1;
};

struct OverlayLayers {
  std::vector<std::string> lower;  // topmost first
  std::string upper;               // empty: read only, and then two lower layers are needed
  std::string work;                // empty directory of the same filesystem as `upper`
  bool user_xattr = false;         // for a mount made inside a user namespace
  bool skip_sync = false;          // what is written is never forced to disk, not even by fsync(2)
  std::string source;              // as lists of mounts show it
  bool move_directories = false;  // rename(2) of directories from below works, by a mark in `upper`
};

// kColonList is the only way before Linux 6.5; it takes about sixty layers.
enum class LayerSyntax : std::uint8_t { kNewest, kColonList };

// A mount that is attached nowhere. It vanishes with this object unless it is attached.
class DetachedMount {
 public:
  static Result<DetachedMount> clone_tree(const std::string& path, MountScope scope);
  static Result<DetachedMount> clone_tree(int path_fd, MountScope scope);
  // Options with an empty value are flags. The error carries the filesystem's own words.
  static Result<DetachedMount> new_filesystem(
      const std::string& type, std::span<const std::pair<std::string, std::string>> options);
  static Result<DetachedMount> overlay(const OverlayLayers& layers,
                                       LayerSyntax syntax = LayerSyntax::kNewest);

  Result<void> set_attributes(const MountAttributes& attributes);
  // Over an existing directory or file. A symbolic link at the end of the path is not followed; an
  // empty path means the descriptor itself.
  Result<void> attach(int directory_fd_or_cwd, const std::string& path) &&;
  int fd() const { return fd_.get(); }  // usable as a directory
  // Whoever closes it takes the mount down, and waits for the kernel.
  UniqueFd give_up() && { return std::move(fd_); }

 private:
  explicit DetachedMount(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Whether this kernel makes overlays of layers that are mounted nowhere. Found by trying, which
// needs the right to mount.
bool overlay_takes_detached_layers();

struct MountTraits {
  using Value = std::string;
  static std::string empty() { return {}; }
  static void close(const std::string& path) noexcept;  // at once for lookups, later for open files
};
// Owns what is mounted at a path.
using UniqueMount = UniqueHandle<MountTraits>;

// No mount or unmount passes between this mount namespace and any other from now on.
Result<void> make_mounts_private();

// Makes a mount the root of this process and moves the old root, with everything below it, onto
// `place` in the new one. Nothing is unmounted, which would wait for all processors.
Result<void> pivot_over(int root_fd, int place_fd);

// Makes a mount the root of this process and detaches the old root with everything below it. Needs
// a mount namespace of its own, whose mounts are private.
Result<void> pivot_to(int root_fd);

}  // namespace pons::linux
