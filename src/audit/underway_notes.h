#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::audit {

// Notes of what has begun and not ended, in a file of equal places. Each is with the kernel when
// write() returns: whoever opens the file after a process was killed finds what that had begun.
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
  linux::UniqueFd file_;
  std::vector<std::string> left_;
  std::vector<std::uint32_t> free_;  // places that were used before
  std::uint32_t used_ = 0;           // places in the file
};

}  // namespace pons::audit
