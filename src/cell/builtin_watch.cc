#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "builtins.h"
#include "kernel.h"
#include "pons/cell/builtin.h"

namespace pons::cell {
namespace {

constexpr uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                             IN_ATTRIB | IN_DELETE_SELF | IN_ONLYDIR;
constexpr size_t kWatchesMax = 8192;
constexpr size_t kDepthMax = 64;

// A watched directory, known by its name in the one above. Number 0 is the root.
struct Watched {
  int number;  // the kernel's; 0: free
  uint32_t parent;
  char name[NAME_MAX + 1];
};

class Watcher {
 public:
  int run(const char* path, bool recursive) {
    recursive_ = recursive;
    root_ = path;
    inotify_ = inotify_init1(IN_CLOEXEC);
    if (inotify_ < 0) return complain(errno, "watch", path);
    const int number = inotify_add_watch(inotify_, path, kEvents);
    if (number < 0) return complain(errno, "watch", path);
    watched_[0].number = number;
    count_ = 1;
    if (recursive_) add_below(0, 0, Found::kOld);
    alignas(inotify_event) static char events[16 * 1024];
    for (;;) {
      const ssize_t size = read(inotify_, events, sizeof events);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return complain(errno, "watch", path);
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<inotify_event*>(events + at);
        at += static_cast<ssize_t>(sizeof *event + event->len);
        if (!handle(*event)) return 0;
      }
    }
  }

 private:
  enum class Found { kOld, kNew };

  // False when the watched directory itself is gone.
  bool handle(const inotify_event& event) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) {
      report_lost();
      return true;
    }
    const uint32_t index = find(event.wd);
    if (index == kWatchesMax) return true;
    if ((event.mask & IN_IGNORED) != 0) {
      watched_[index].number = 0;
      return index != 0;
    }
    if ((event.mask & IN_DELETE_SELF) != 0) {
      if (index == 0) report(Change::kRemove, 0, nullptr);
      return index != 0;
    }
    const char* name = event.len > 0 ? event.name : nullptr;
    const bool directory = (event.mask & IN_ISDIR) != 0;
    if (name == nullptr && index != 0) return true;  // told by the directory above as well
    if ((event.mask & IN_MOVED_FROM) != 0 && directory && name != nullptr) forget(index, name);
    if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) report(Change::kCreate, index, name);
    if ((event.mask & IN_MODIFY) != 0) report(Change::kWrite, index, name);
    if ((event.mask & IN_ATTRIB) != 0) report(Change::kMode, index, name);
    if ((event.mask & IN_DELETE) != 0) report(Change::kRemove, index, name);
    if ((event.mask & IN_MOVED_FROM) != 0) report(Change::kRename, index, name);
    if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0 && directory && recursive_ &&
        name != nullptr) {
      add(index, name, 0, Found::kNew);
    }
    return true;
  }

  uint32_t find(int number) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (watched_[i].number == number) return i;
    }
    return kWatchesMax;
  }

  bool build_path(uint32_t index, TextWriter* writer, size_t depth) const {
    if (index == 0) return true;
    if (depth > kDepthMax || !build_path(watched_[index].parent, writer, depth + 1)) return false;
    if (watched_[index].parent != 0) writer->add_byte('/');
    return writer->add(watched_[index].name).fits();
  }

  void report_lost() { report(Change::kWrite, 0, nullptr); }

  void report(Change change, uint32_t index, const char* name) {
    char bytes[sizeof(WatchRecord) + PATH_MAX];
    TextWriter path(bytes + sizeof(WatchRecord), PATH_MAX);
    if (!build_path(index, &path, 0)) return;
    if (name != nullptr && index != 0) path.add_byte('/');
    if (name != nullptr) path.add(name);
    if (!path.fits()) return;
    const WatchRecord record{kWatchRecordMagic, change, static_cast<uint32_t>(path.size()), 0};
    memcpy(bytes, &record, sizeof record);
    if (write_all(1, bytes, sizeof record + path.size()) != 0) _exit(EPIPE);
  }

  void forget(uint32_t parent, const char* name) {
    for (uint32_t i = 1; i < count_; ++i) {
      if (watched_[i].number == 0 || watched_[i].parent != parent) continue;
      if (name != nullptr && strcmp(watched_[i].name, name) != 0) continue;
      inotify_rm_watch(inotify_, watched_[i].number);
      watched_[i].number = 0;
      forget(i, nullptr);
    }
  }

  uint32_t free_index() {
    for (uint32_t i = 1; i < count_; ++i) {
      if (watched_[i].number == 0) return i;
    }
    return count_ < kWatchesMax ? count_++ : static_cast<uint32_t>(kWatchesMax);
  }

  void add(uint32_t parent, const char* name, size_t depth, Found found) {
    const uint32_t index = depth < kDepthMax ? free_index() : static_cast<uint32_t>(kWatchesMax);
    if (index == kWatchesMax) {
      report_lost();
      return;
    }
    Watched* watched = &watched_[index];
    watched->parent = parent;
    TextWriter(watched->name, sizeof watched->name).add(name).finish();
    char path[PATH_MAX];
    if (!absolute_path(index, path)) return;
    const int number = inotify_add_watch(inotify_, path, kEvents | IN_DONT_FOLLOW);
    if (number < 0) {
      if (errno == ENOSPC) report_lost();
      return;
    }
    if (find(number) != kWatchesMax) return;
    watched->number = number;
    add_below(index, depth + 1, found);
  }

  bool absolute_path(uint32_t index, char path[PATH_MAX]) const {
    TextWriter writer(path, PATH_MAX);
    writer.add(root_).add_byte('/');
    return build_path(index, &writer, 0) && writer.finish() != nullptr;
  }

  // What came into a new directory before its watch is reported from here.
  void add_below(uint32_t index, size_t depth, Found found) {
    char path[PATH_MAX];
    if (!absolute_path(index, path)) return;
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    alignas(DirectoryEntry) char entries[2048];
    for (;;) {
      const long size = syscall(SYS_getdents64, directory, entries, sizeof entries);
      if (size <= 0) break;
      for (long at = 0; at < size;) {
        const auto* entry = reinterpret_cast<DirectoryEntry*>(entries + at);
        at += entry->size;
        if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) continue;
        if (found == Found::kNew) report(Change::kCreate, index, entry->name);
        if (entry->type == 4) add(index, entry->name, depth, found);
      }
    }
    close(directory);
  }

  bool recursive_;
  const char* root_;
  int inotify_;
  uint32_t count_;
  Watched watched_[kWatchesMax];
};

Watcher watcher;

}  // namespace

int watch(const char* path, bool recursive) {
  return watcher.run(path, recursive);
}

}  // namespace pons::cell
