#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "privileges.h"

// Single steps on the files of layers, each relative to an open directory and following no link.

namespace pons::spawner {

// The overlay's own attributes. Each kind means something only to overlays of that kind: in the
// other one it is a file's content, written by anybody.
struct Marks {
  std::string_view prefix;
  const char* opaque;
  const char* redirect;
};
const Marks& marks_of(Privileges privileges);

inline constexpr int kDepthMax = 256;  // directories held open at once, on each side

Result<std::vector<std::string>> names_in(int directory);
Result<linux::UniqueFd> open_child(int directory, const std::string& name);
Result<linux::UniqueFd> make_child(int directory, const std::string& name);
Result<struct stat> inspect(int directory, const std::string& name);

bool is_whiteout(const struct stat& info);
bool is_opaque(int directory, const Marks& marks);

// Marks of the other kind stay behind: they mean nothing here, but could to whoever reads a copy.
enum class CopyMarks : std::uint8_t { kYes, kNo };
Result<void> copy_attributes(int from, int to, const Marks& marks, CopyMarks own);

struct Owner {
  uid_t uid;
  gid_t gid;
};
Result<void> dress(int fd, const struct stat& info, const Owner& owner);

}  // namespace pons::spawner
