#pragma once

#include <stddef.h>
#include <stdint.h>

#include "text.h"

namespace pons::cell {

inline constexpr size_t kGroupsMax = 64;
inline constexpr size_t kHomeBytes = 512;
inline constexpr size_t kNameBytes = 64;

// Whom a job runs as. Unused bytes are zero, so that two can be compared as memory.
struct User {
  uint32_t uid;
  uint32_t gid;
  uint32_t groups[kGroupsMax];
  uint32_t group_count;
  char name[kNameBytes];
  char home[kHomeBytes];
};

// Names are looked up in the two files, which belong to the sandbox: they may be missing, huge or
// nonsense. At most the first megabyte of each counts. "root" and numbers need no files; a number
// without an entry gets the group of the same number and "/" as its home. 0 or an errno: ENOENT
// when there is no such user.
int find_user(Text wanted, const char* passwd_file, const char* group_file, User* user);

// Whether an entry of the file has this number.
bool has_user_number(uint32_t uid, const char* passwd_file);

}  // namespace pons::cell
