#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "builtins.h"
#include "kernel.h"

namespace pons::cell {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr size_t kListDepthMax = 64;
constexpr size_t kRemoveDepthMax = 4096;

bool is_dots(const char* name) {
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// One directory that is being listed.
struct Level {
  int directory;
  size_t path_size;  // of the path that leads to it
  long at;
  long end;
  alignas(DirectoryEntry) char entries[8192];
};

class Lister {
 public:
  int list(const char* path, size_t depth_max) {
    // The argument itself may be a link to a directory; nothing below it is followed.
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return complain(errno, "list", path);
    levels_[0].directory = directory;
    for (size_t depth = 0;;) {
      DirectoryEntry* entry = next(&levels_[depth]);
      if (entry == nullptr) {
        close(levels_[depth].directory);
        if (depth == 0) return flush_records();
        --depth;
        continue;
      }
      const int error = show(levels_[depth], entry, path_size_of(depth));
      if (error == EPIPE) return error;
      if (error == 0 && depth + 1 < depth_max &&
          enter(levels_[depth], entry, &levels_[depth + 1])) {
        ++depth;
      }
    }
  }

 private:
  static DirectoryEntry* next(Level* level) {
    for (;;) {
      if (level->at >= level->end) {
        level->at = 0;
        level->end =
            syscall(SYS_getdents64, level->directory, level->entries, sizeof level->entries);
        if (level->end <= 0) return nullptr;
      }
      auto* entry = reinterpret_cast<DirectoryEntry*>(level->entries + level->at);
      level->at += entry->size;
      if (!is_dots(entry->name)) return entry;
    }
  }

  size_t path_size_of(size_t depth) const { return levels_[depth].path_size; }

  // Files that vanish meanwhile are left out.
  int show(const Level& level, const DirectoryEntry* entry, size_t path_size) {
    TextWriter writer(path_ + path_size, sizeof path_ - path_size);
    if (path_size > 0) writer.add_byte('/');
    if (!writer.add(entry->name).fits()) return ENAMETOOLONG;
    shown_size_ = path_size + writer.size();
    return write_record(level.directory, entry->name, {path_, shown_size_});
  }

  bool enter(const Level& level, const DirectoryEntry* entry, Level* below) {
    if (entry->type != 4 && entry->type != 0) return false;  // neither a directory nor unknown
    const int directory = openat(level.directory, entry->name, kOpenDirectory);
    if (directory < 0) return false;
    below->directory = directory;
    below->path_size = shown_size_;
    below->at = 0;
    below->end = 0;
    return true;
  }

  size_t shown_size_;
  char path_[PATH_MAX];
  Level levels_[kListDepthMax];
};

Lister lister;

// Where the removal has come from, to notice when somebody moves the directory it works in.
struct Place {
  dev_t device;
  ino_t inode;
};

Place places[kRemoveDepthMax];

bool find_place(Place* place) {
  struct stat status;
  if (stat(".", &status) != 0) return false;
  *place = {status.st_dev, status.st_ino};
  return true;
}

enum class Emptied { kYes, kEntered, kFailed };

Emptied enter_entry(const char* name) {
  const int below = openat(AT_FDCWD, name, kOpenDirectory);
  if (below < 0) return Emptied::kFailed;
  const int result = fchdir(below);
  const int error = errno;
  close(below);
  errno = error;
  return result == 0 ? Emptied::kEntered : Emptied::kFailed;
}

// Removes what it can of the current directory, or goes into the first one below that is not empty.
Emptied empty_current() {
  alignas(DirectoryEntry) static char entries[32 * 1024];
  const int directory = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return Emptied::kFailed;
  Emptied result = Emptied::kYes;
  while (result == Emptied::kYes) {
    const long size = syscall(SYS_getdents64, directory, entries, sizeof entries);
    if (size < 0) result = Emptied::kFailed;
    if (size <= 0) break;
    for (long at = 0; at < size && result == Emptied::kYes;) {
      auto* entry = reinterpret_cast<DirectoryEntry*>(entries + at);
      at += entry->size;
      if (is_dots(entry->name) || unlink(entry->name) == 0 || errno == ENOENT) continue;
      if (errno == EISDIR && rmdir(entry->name) == 0) continue;
      result = errno == ENOTEMPTY || errno == EEXIST ? enter_entry(entry->name) : Emptied::kFailed;
    }
  }
  const int error = errno;
  close(directory);
  errno = error;
  return result;
}

int empty_tree() {
  if (!find_place(&places[0])) return errno;
  for (size_t depth = 0;;) {
    switch (empty_current()) {
      case Emptied::kFailed:
        return errno;
      case Emptied::kEntered:
        if (++depth == kRemoveDepthMax) return ENAMETOOLONG;
        if (!find_place(&places[depth])) return errno;
        break;
      case Emptied::kYes:
        if (depth == 0) return 0;
        --depth;
        Place now;
        if (chdir("..") != 0 || !find_place(&now)) return errno;
        if (now.device != places[depth].device || now.inode != places[depth].inode) return EBUSY;
        break;
    }
  }
}

}  // namespace

int list_directory(const char* path, uint64_t depth) {
  if (depth == 0) depth = 1;
  return lister.list(path, depth < kListDepthMax ? depth : kListDepthMax);
}

int remove_tree(const char* path) {
  if (unlink(path) == 0) return 0;
  if (errno != EISDIR) return complain(errno, "remove", path);
  if (rmdir(path) == 0) return 0;
  if (errno != ENOTEMPTY && errno != EEXIST) return complain(errno, "remove", path);
  const int start = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (start < 0) return complain(errno, "remove", path);
  if (enter_entry(path) != Emptied::kEntered) return complain(errno, "remove", path);
  if (const int error = empty_tree()) return complain(error, "remove all of", path);
  if (fchdir(start) != 0 || rmdir(path) != 0) return complain(errno, "remove", path);
  return 0;
}

}  // namespace pons::cell
