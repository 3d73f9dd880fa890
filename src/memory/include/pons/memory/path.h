#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"

// Where a memory stands in its store: a path as that of a file, and like there nothing is a file
// and a folder at once.

namespace pons::memory {

inline constexpr std::size_t kPathBytesMax = 1024;
inline constexpr std::size_t kSegmentsMax = 20;

// "/notes/a.md": 1 to 20 segments, none of them empty, "." or "..", in Unicode's normal form C and
// without characters that cannot be seen.
Result<void> check_path(std::string_view path);
// "/" or "/notes/": what the paths below it begin with.
Result<void> check_prefix(std::string_view prefix);

// "/a", "/a/b" and "/a/b/c" of "/a/b/c".
std::vector<std::string> folders_and_itself(std::string_view path);

// Both cannot be in one store: they are the same, or one is a folder of the other.
bool overlap(std::string_view one, std::string_view other);

// What stands below a folder, as an interval of bytes: [first, end).
struct PathInterval {
  std::string first;
  std::string end;
};
PathInterval below_folder(std::string_view folder);  // "/a", or "" for all
// The first path that may follow this one.
std::string after_path(std::string_view path);

// What a store's folder is called where it is mounted: "My Notes" is "my-notes".
std::string mount_slug(std::string_view store_name);

}  // namespace pons::memory
