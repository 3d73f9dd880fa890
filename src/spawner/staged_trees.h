#pragma once

#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/mount.h"
#include "privileges.h"

namespace pons::spawner {

// Parts of every sandbox's file system that are the same for all: built once, read only, and shown
// in each by one clone of a mount tree.
class StagedTrees {
 public:
  // Mounts them below `directory`, for as long as the calling process's mount namespace lives.
  static Result<StagedTrees> build(const std::string& directory, Privileges privileges);

  Result<linux::DetachedMount> dev() const;  // null, zero, full, random, urandom, tty
  Result<linux::DetachedMount> sys() const;  // processors and memory nodes
  // The host's programs, by their names in the root directory: "usr", and without merged /usr also
  // "bin", "lib", … An overlay stands between them and the host, so that watching or locking a file
  // here says nothing about the host and stops nobody there.
  const std::vector<std::string>& host_names() const { return host_names_; }
  Result<linux::DetachedMount> host(const std::string& name) const;
  // To lay over what is not to be seen.
  Result<linux::DetachedMount> blank_file() const;
  Result<linux::DetachedMount> blank_directory() const;
  // A mount namespace that holds an empty root with a directory "root" in it, and nothing else. A
  // sandbox begins as a copy of it: copying the spawner's own, to throw all of it away, takes
  // longer than everything that is mounted then. -1 without root: the kernel lets a user mount a
  // /proc only where another can be seen.
  int bare_namespace() const { return bare_namespace_.get(); }

 private:
  explicit StagedTrees(std::string directory) : directory_(std::move(directory)) {}
  Result<void> build_dev(int root) const;
  Result<void> build_sys(int root) const;
  Result<void> build_attic(int root) const;
  Result<void> build_host(int root, Privileges privileges);

  Result<void> build_bare_namespace();

  std::string directory_;
  std::vector<std::string> host_names_;
  linux::UniqueFd blank_file_;
  linux::UniqueFd blank_directory_;
  linux::UniqueFd bare_namespace_;
};

}  // namespace pons::spawner
