#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/unique_handle.h"
#include "pons/linux/fd.h"

namespace pons::audit {

// Notes of what has begun and not ended, in a file of equal places. Each is with the kernel when
// write() returns: whoever opens the file after a process was killed finds what that had begun. The
// file is mapped: a note is on the path of every request, and two system calls less.
class UnderwayNotes {
 public:
  static constexpr std::size_t kPlaceBytes = 2048;
  static constexpr std::uint32_t kPlacesMax = 16 * 1024;

  static Result<UnderwayNotes> open(const std::string& directory);

  // Of the process before, until clear().
  const std::vector<std::string>& left() const { return left_; }
  Result<void> clear();

  // One line of text without its line end. kLimit when it is too long, or when no place is free.
  Result<std::uint32_t> write(std::string_view text);
  void erase(std::uint32_t place);

 private:
  struct MappingTraits {
    using Value = char*;
    static Value empty() { return nullptr; }
    static void close(Value value) noexcept { munmap(value, kPlaceBytes * kPlacesMax); }
  };
  // Makes room for more places. Disk space is taken now: for want of it later the kernel would end
  // the process that writes.
  Result<void> grow();
  std::span<char> bytes_of(std::uint32_t place) const;

  linux::UniqueFd file_;
  UniqueHandle<MappingTraits> mapping_;  // of the largest size that the file can have
  std::vector<std::string> left_;
  std::vector<std::uint32_t> free_;  // places that were used before
  std::uint32_t used_ = 0;           // places that hold a note or have held one
  std::uint32_t allocated_ = 0;      // places in the file
};

}  // namespace pons::audit
