#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/unique_handle.h"

namespace pons::linux {

struct FdTraits {
  using Value = int;
  static int empty() { return -1; }
  static void close(int fd) noexcept;  // once; EINTR does not mean "still open" on Linux
};

// A file descriptor. Everything here opens with O_CLOEXEC.
using UniqueFd = UniqueHandle<FdTraits>;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> create_pipe(int flags = 0);
Result<UniqueFd> duplicate(int fd);
Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode = 0);
Result<void> set_nonblocking(int fd, bool on = true);
Result<void> set_inheritable(int fd);  // clears close-on-exec

// The whole file, refused past `bytes_max`: /proc and configuration files, never bulk data.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = 1 << 20);
Result<std::string> read_all(int fd, std::size_t bytes_max);
Result<void> write_all(int fd, std::string_view data);

// Replaces the file in one step: readers see the old text or the new one. Synced before it returns.
Result<void> write_file_atomically(const std::string& path, std::string_view data, unsigned mode);
// Makes it last what was created, replaced or removed in the directory.
Result<void> sync_directory(const std::string& path);

}  // namespace pons::linux
