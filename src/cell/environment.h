#pragma once

#include "request.h"
#include "users.h"

namespace pons::cell {

// "NAME=value" strings for a new process: the claim's, the job's over them, and HOME, USER,
// LOGNAME, PATH and (with a terminal) TERM where both leave them out. Points into the lists and
// into itself.
class Environment {
 public:
  void build(const StringList& claim, const StringList& job, const User& user, bool terminal);

  // Ends with a null pointer.
  char** strings() { return strings_; }
  const char* const* strings() const { return strings_; }
  uint32_t count() const { return count_; }
  // The value of a name, or nullptr.
  const char* find(const char* name) const;

 private:
  void put(const char* string);
  void put_default(const char* name, const char* value, TextWriter* memory);
  int find_index(Text name) const;

  uint32_t count_;
  char defaults_[kHomeBytes + 2 * kNameBytes + 256];
  char* strings_[2 * kEnvironmentMax + 8];  // last: few are used
};

}  // namespace pons::cell
