#pragma once

#include <cstdint>
#include <string>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

// A file system in a file: the bound on disk use where the file system itself offers none.

namespace pons::linux {

struct Ext4Size {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
};

// Formats a sparse file. Runs mkfs.ext4 (package e2fsprogs), so it is not for processes that may
// not execute programs. The file appears complete or not at all; one that exists is replaced.
Result<void> create_ext4_image(const std::string& path, Ext4Size size);
bool can_create_ext4_images();  // mkfs.ext4 is installed

// Copies an image without its holes, or shares its blocks where the file system can. Executes
// nothing. The copy must not exist.
Result<void> copy_image(const std::string& from, const std::string& to);

// The same without a name: the copy is gone with its last descriptor, whoever is killed when.
Result<UniqueFd> copy_image_unnamed(const std::string& from, const std::string& directory);

// A loop device backed by a file. With this object goes the caller's hold on it: the device is
// freed when also no mount uses it.
class LoopImage {
 public:
  // Needs root, /dev/loop-control and /dev/loop*.
  static Result<LoopImage> attach(const std::string& image_path);
  // The devices are looked for in a directory such as /dev.
  static Result<LoopImage> attach(int image_fd, int devices_fd);

  const std::string& device() const { return device_; }  // "/dev/loop7"
  int fd() const { return fd_.get(); }
  bool direct_io() const { return direct_io_; }

 private:
  LoopImage(UniqueFd fd, std::string device, bool direct_io)
      : fd_(std::move(fd)), device_(std::move(device)), direct_io_(direct_io) {}
  UniqueFd fd_;
  std::string device_;
  bool direct_io_;
};

}  // namespace pons::linux
