#pragma once

#include <stdint.h>

#include "text.h"

namespace pons::cell {

// Runs a program of pons/cell/builtin.h in this process, on descriptors 0, 1 and 2. Returns its
// exit code.
int run_builtin(uint32_t argc, char** argv);

// What the programs are made of. Each returns 0 or an errno.

// Says on standard error what went wrong with `path` and returns `error`.
int complain(int error, const char* what, const char* path);
int write_all(int file, const void* bytes, size_t size);
// One FileRecord about `name` in `directory`, called `shown`. Goes to standard output with the next
// flush, or before when many are waiting.
int write_record(int directory, const char* name, Text shown);
int flush_records();

// Whose what is made becomes.
struct Owner {
  bool given = false;  // otherwise whoever makes it
  uint32_t uid = 0;
  uint32_t gid = 0;
};
int find_owner(const char* name, Owner* owner);
int give_file(int file, const Owner& owner);
int make_directory(const char* path, uint32_t mode, const Owner& owner);
int make_parents(const char* path, const Owner& owner);

struct Attributes {
  uint32_t count = 0;  // of pairs
  char** words = nullptr;
};

int read_file(const char* path, uint64_t offset, uint64_t size);
int write_file(const char* path, uint32_t mode, const char* flags, const Owner& owner,
               const Attributes& attributes);
int list_directory(const char* path, uint64_t depth);
int remove_tree(const char* path);
int watch(const char* path, bool recursive);

}  // namespace pons::cell
