#include "own_files.h"

#include <sqlite3.h>

#include <cstring>

#include "pons/base/check.h"

namespace pons::store {

namespace {

int keep_path(sqlite3_vfs*, const char* path, int bytes, char* out) {
  const std::size_t size = std::strlen(path) + 1;
  if (size > static_cast<std::size_t>(bytes)) return SQLITE_CANTOPEN;
  std::memcpy(out, path, size);
  return SQLITE_OK;
}

sqlite3_vfs* make_files() {
  static sqlite3_vfs files;
  const sqlite3_vfs* const usual = sqlite3_vfs_find("unix");
  CHECK(usual != nullptr);
  files = *usual;
  files.pNext = nullptr;
  files.zName = "pons";
  files.xFullPathname = keep_path;
  CHECK(sqlite3_vfs_register(&files, 0) == SQLITE_OK);
  return &files;
}

}  // namespace

const char* own_files() {
  static const sqlite3_vfs* const kFiles = make_files();
  return kFiles->zName;
}

}  // namespace pons::store
