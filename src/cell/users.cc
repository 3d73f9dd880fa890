#include "users.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pons::cell {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr size_t kLineBytesMax = 4096;

// Lines of a file that may be anything: a FIFO or a device is not opened, a line that is too long
// is skipped.
class LineReader {
 public:
  explicit LineReader(const char* path) {
    struct stat status;
    file_ = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file_ >= 0 && (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode))) {
      close(file_);
      file_ = -1;
    }
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader() {
    if (file_ >= 0) close(file_);
  }

  bool next(Text* line) {
    for (;;) {
      const char* from = buffer_ + begin_;
      const void* newline = end_ > begin_ ? memchr(from, '\n', end_ - begin_) : nullptr;
      if (newline != nullptr || (at_end_ && end_ > begin_)) {
        const char* to = newline != nullptr ? static_cast<const char*>(newline) : buffer_ + end_;
        *line = {from, static_cast<size_t>(to - from)};
        begin_ = newline != nullptr ? static_cast<size_t>(to - buffer_) + 1 : end_;
        if (!skip_) return true;
        skip_ = false;
        continue;
      }
      if (at_end_) return false;
      fill();
    }
  }

 private:
  void fill() {
    if (begin_ == 0 && end_ == sizeof buffer_) {
      skip_ = true;
      end_ = 0;
    }
    memmove(buffer_, buffer_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const ssize_t count = file_ < 0 || total_ >= kFileBytesMax
                              ? 0
                              : read(file_, buffer_ + end_, sizeof buffer_ - end_);
    if (count <= 0) {
      at_end_ = true;
      return;
    }
    end_ += static_cast<size_t>(count);
    total_ += static_cast<size_t>(count);
  }

  int file_ = -1;
  bool at_end_ = false;
  bool skip_ = false;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t total_ = 0;
  char buffer_[kLineBytesMax];
};

bool parse_id(Text text, uint32_t* id) {
  uint64_t number = 0;
  // The highest number means "unchanged" to the kernel.
  if (!parse_number(text, 10, &number) || number >= UINT32_MAX) return false;
  *id = static_cast<uint32_t>(number);
  return true;
}

void copy_into(char* to, size_t capacity, Text from) {
  memset(to, 0, capacity);
  if (from.size < capacity && from.size > 0) memcpy(to, from.data, from.size);
}

// name:password:uid:gid:comment:home:shell
bool parse_passwd_line(Text line, User* user) {
  const Text name = cut_until(&line, ':');
  cut_until(&line, ':');
  const Text uid = cut_until(&line, ':');
  const Text gid = cut_until(&line, ':');
  cut_until(&line, ':');
  const Text home = cut_until(&line, ':');
  if (name.size == 0 || name.size >= kNameBytes || home.size >= kHomeBytes) return false;
  if (!parse_id(uid, &user->uid) || !parse_id(gid, &user->gid)) return false;
  copy_into(user->name, sizeof user->name, name);
  copy_into(user->home, sizeof user->home, home.size > 0 ? home : text_of("/"));
  return true;
}

bool has_member(Text members, Text name) {
  while (members.size > 0) {
    if (equal(cut_until(&members, ','), name)) return true;
  }
  return false;
}

// name:password:gid:member,member
void add_groups(const char* group_file, User* user) {
  LineReader lines(group_file);
  Text line;
  while (user->group_count < kGroupsMax && lines.next(&line)) {
    cut_until(&line, ':');
    cut_until(&line, ':');
    uint32_t gid = 0;
    if (!parse_id(cut_until(&line, ':'), &gid) || gid == user->gid) continue;
    if (has_member(line, text_of(user->name))) user->groups[user->group_count++] = gid;
  }
}

bool find_entry(Text wanted, bool by_number, uint32_t number, const char* passwd_file, User* user) {
  LineReader lines(passwd_file);
  Text line;
  while (lines.next(&line)) {
    User entry = {};
    if (!parse_passwd_line(line, &entry)) continue;
    if (by_number ? entry.uid == number : equal(text_of(entry.name), wanted)) {
      *user = entry;
      return true;
    }
  }
  return false;
}

}  // namespace

int find_user(Text wanted, const char* passwd_file, const char* group_file, User* user) {
  *user = User{};
  uint32_t number = 0;
  const bool by_number = parse_id(wanted, &number);
  if (!find_entry(wanted, by_number, number, passwd_file, user)) {
    const bool root = by_number ? number == 0 : equal(wanted, text_of("root"));
    if (!by_number && !root) return ENOENT;
    user->uid = number;
    user->gid = number;
    copy_into(user->name, sizeof user->name, root ? text_of("root") : wanted);
    copy_into(user->home, sizeof user->home, text_of(root ? "/root" : "/"));
    return 0;
  }
  user->groups[user->group_count++] = user->gid;
  add_groups(group_file, user);
  return 0;
}

bool has_user_number(uint32_t uid, const char* passwd_file) {
  User ignored;
  return find_entry({}, true, uid, passwd_file, &ignored);
}

}  // namespace pons::cell
