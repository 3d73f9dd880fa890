#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/linux/mount.h"
#include "pons/spawner/protocol.h"

namespace pons::spawner {

// Where a store is shown; the directory was made for it.
struct StorePlaceTraits {
  using Value = std::string;
  static std::string empty() { return {}; }
  static void close(const std::string& path) noexcept;
};

// Everything one sandbox writes: a file system of its own with one directory per layer, so that one
// size holds for all of them together. Attached nowhere; it lives as long as a mount or a
// descriptor needs it.
class Store {
 public:
  static Result<Store> create_in_memory(const SandboxLimits& limits);
  static Result<Store> create_on_disk(const SandboxLimits& limits);
  static Store adopt(linux::UniqueFd root) { return Store(std::move(root)); }

  // Shows the store at a path of this process's mount namespace for as long as it lives: before
  // Linux 6.15 nothing else can be a layer of an overlay.
  Result<void> attach(const std::string& path);

  int fd() const { return root_.get(); }
  // Directories above a layer can be walked through by everyone: seen with a sandbox's ids, root's
  // own are nobody's, and no capability helps there.
  // An empty layer of the given number. What a failed attempt left there is replaced.
  Result<void> add_layer(std::uint32_t number, std::uint32_t owner) const;
  Result<linux::UniqueFd> open_layer(std::uint32_t number) const;
  Result<linux::UniqueFd> open_work(std::uint32_t number) const;  // scratch space of the overlay
  // Puts a layer aside under a name that no layer has, to be deleted there at leisure.
  Result<std::string> discard_layer(std::uint32_t number) const;
  // On disk it can only grow (EINVAL), and its inodes follow its size.
  Result<void> resize(const SandboxLimits& limits) const;
  // Nobody reads it any more: what is not yet on disk is not written there while it is unmounted.
  void abandon() const;

 private:
  explicit Store(linux::UniqueFd root) : root_(std::move(root)) {}
  linux::UniqueFd root_;
  UniqueHandle<StorePlaceTraits> place_;
};

}  // namespace pons::spawner
