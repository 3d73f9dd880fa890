#include "mount_path.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/managed/session_files.h"

namespace pons::managed {

namespace {

constexpr std::size_t kPathBytesMax = 1'024;
constexpr std::size_t kSegmentBytesMax = 255;  // the kernel's
constexpr std::array<std::string_view, 4> kNotOurs = {"/dev", "/proc", "/sys", kMachineNotes};

bool is_at_or_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_plain(std::string_view segment) {
  return !segment.empty() && segment != "." && segment != ".." &&
         segment.size() <= kSegmentBytesMax && std::ranges::none_of(segment, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
         });
}

}  // namespace

Result<void> check_mount_path(const JsonPlace& place, std::string_view path) {
  if (path.size() > kPathBytesMax)
    return place.refuse(fmt::format("is longer than {} bytes", kPathBytesMax));
  if (!path.starts_with('/') || !std::ranges::all_of(split(path.substr(1), '/'), is_plain))
    return place.refuse("is a path such as /mnt/data/a.csv, without . and ..");
  for (const std::string_view folder : kNotOurs)
    if (is_at_or_below(path, folder))
      return place.refuse(fmt::format("nothing is put into {}", folder));
  return {};
}

bool are_in_each_others_way(std::string_view one, std::string_view other) {
  return is_at_or_below(one, other) || is_at_or_below(other, one);
}

}  // namespace pons::managed
