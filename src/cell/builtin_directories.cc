// Making directories where others may change names meanwhile: what is given away is the directory
// that was made, by its descriptor, and not whatever stands there a moment later.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builtins.h"
#include "kernel.h"

namespace pons::cell {
namespace {

constexpr uint32_t kPrivate = 0700;  // until it is whose it should be
constexpr uint32_t kModeOfParents = 0755;

bool is_empty(int directory) {
  alignas(DirectoryEntry) char buffer[512];
  const long size = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
  if (size < 0) return false;
  for (long at = 0; at < size;) {
    auto* entry = reinterpret_cast<DirectoryEntry*>(buffer + at);
    if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0) return false;
    at += entry->size;
  }
  return true;
}

// As only the one that was just made can be.
bool is_new(int directory, struct stat* status) {
  return fstat(directory, status) == 0 && status->st_uid == geteuid() &&
         (status->st_mode & 0777) == kPrivate && is_empty(directory);
}

int make_in(int parent, const char* name, uint32_t mode, const Owner& owner) {
  if (mkdirat(parent, name, kPrivate) != 0) return errno;
  const int made = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (made < 0) return errno;
  struct stat status;
  int error = is_new(made, &status) ? 0 : EEXIST;
  if (error == 0 && owner.given && fchown(made, owner.uid, owner.gid) != 0) error = errno;
  if (error == 0 && fchmod(made, mode | (status.st_mode & S_ISGID)) != 0) error = errno;
  close(made);
  return error;
}

// The directory in which the last name of the path stands, and that name, which is in `copy`.
int enter_parent(char copy[PATH_MAX], const char* path, const Owner* owner_of_new, int* parent,
                 const char** last) {
  if (*path == '\0') return ENOENT;
  TextWriter writer(copy, PATH_MAX);
  if (writer.add(path).finish() == nullptr) return ENAMETOOLONG;
  size_t end = strlen(copy);
  while (end > 1 && copy[end - 1] == '/') copy[--end] = '\0';
  int here = open(copy[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (here < 0) return errno;
  size_t begin = 0;
  for (size_t i = 0; i < end; ++i) {
    if (copy[i] != '/') continue;
    copy[i] = '\0';
    const char* name = copy + begin;
    begin = i + 1;
    if (*name == '\0') continue;
    if (owner_of_new != nullptr) {
      const int error = make_in(here, name, kModeOfParents, *owner_of_new);
      if (error != 0 && error != EEXIST && error != EROFS && error != EACCES) {
        close(here);
        return error;
      }
    }
    const int next = openat(here, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int error = errno;
    close(here);
    if (next < 0) return error;
    here = next;
  }
  *parent = here;
  *last = copy[begin] == '\0' ? "." : copy + begin;
  return 0;
}

}  // namespace

int make_directory(const char* path, uint32_t mode, const Owner& owner) {
  static char copy[PATH_MAX];
  int parent = -1;
  const char* name = nullptr;
  if (const int error = enter_parent(copy, path, nullptr, &parent, &name)) return error;
  const int error = make_in(parent, name, mode, owner);
  close(parent);
  return error;
}

int make_parents(const char* path, const Owner& owner) {
  static char copy[PATH_MAX];
  int parent = -1;
  const char* name = nullptr;
  if (const int error = enter_parent(copy, path, &owner, &parent, &name)) return error;
  close(parent);
  return 0;
}

}  // namespace pons::cell
