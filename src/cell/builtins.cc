#include "builtins.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pons/cell/builtin.h"
#include "users.h"

namespace pons::cell {
namespace {

char records[32 * 1024];
size_t records_size;

FileKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::kFile;
  if (S_ISDIR(mode)) return FileKind::kDirectory;
  return S_ISLNK(mode) ? FileKind::kLink : FileKind::kOther;
}

int stat_one(const char* path) {
  int error = write_record(AT_FDCWD, path, {});
  if (error == 0) error = flush_records();
  return error == 0 ? 0 : complain(error, "stat", path);
}

int make_one_directory(const char* path, uint32_t mode, const Owner& owner) {
  if (const int error = make_parents(path, owner)) {
    return complain(error, "create parents of", path);
  }
  if (const int error = make_directory(path, mode, owner)) {
    return complain(error, "create directory", path);
  }
  return stat_one(path);
}

int rename_one(const char* from, const char* to) {
  return rename(from, to) == 0 ? stat_one(to) : complain(errno, "rename", from);
}

int change_mode(const char* path, uint32_t mode) {
  return chmod(path, mode) == 0 ? stat_one(path) : complain(errno, "set the mode of", path);
}

// There is no call that names a file by its directory's descriptor.
const char* attribute_path(int directory, const char* name, char path[PATH_MAX]) {
  if (directory == AT_FDCWD) return name;
  TextWriter writer(path, PATH_MAX);
  writer.add("/proc/self/fd/").add_number(static_cast<uint64_t>(directory)).add_byte('/');
  return writer.add(name).finish();
}

// Those that do not fit are left out.
uint32_t read_attributes(int directory, const char* name, char out[kAttributesBytesMax]) {
  static char path[PATH_MAX];
  static char names[kAttributesBytesMax];
  static char value[kAttributesBytesMax];
  constexpr Text kPrefix = {"user.", 5};
  const char* file = attribute_path(directory, name, path);
  const ssize_t names_size = file == nullptr ? -1 : llistxattr(file, names, sizeof names - 1);
  if (names_size <= 0) return 0;
  names[names_size] = '\0';
  TextWriter writer(out, kAttributesBytesMax);
  size_t whole = 0;
  for (ssize_t at = 0; at < names_size; at += static_cast<ssize_t>(strlen(names + at)) + 1) {
    if (strncmp(names + at, kPrefix.data, kPrefix.size) != 0) continue;
    const ssize_t size = lgetxattr(file, names + at, value, sizeof value);
    if (size < 0 || memchr(value, '\0', static_cast<size_t>(size)) != nullptr) continue;
    writer.add(names + at).add_byte('\0').add({value, static_cast<size_t>(size)}).add_byte('\0');
    if (!writer.fits()) break;
    whole = writer.size();
  }
  return static_cast<uint32_t>(whole);
}

// Looks at what a link leads to, without opening it.
void follow_link(int directory, const char* name, FileRecord* record, char path[PATH_MAX]) {
  const int end = openat(directory, name, O_PATH | O_CLOEXEC);
  if (end < 0) return;
  struct stat status;
  if (fstat(end, &status) == 0) {
    record->has_end = 1;
    record->end_kind = kind_of(status.st_mode);
    record->end_mode = status.st_mode & 07777;
    record->end_size = static_cast<uint64_t>(status.st_size);
    char self[64];
    TextWriter writer(self, sizeof self);
    writer.add("/proc/self/fd/").add_number(static_cast<uint64_t>(end));
    const ssize_t size = readlink(writer.finish(), path, PATH_MAX);
    if (size > 0) record->end_path_size = static_cast<uint32_t>(size);
  }
  close(end);
}

}  // namespace

int find_owner(const char* name, Owner* owner) {
  static User user;
  if (*name == '\0') return 0;
  if (const int error = find_user(text_of(name), "/etc/passwd", "/etc/group", &user)) return error;
  *owner = {true, user.uid, user.gid};
  return 0;
}

int give_file(int file, const Owner& owner) {
  if (!owner.given) return 0;
  return fchown(file, owner.uid, owner.gid) == 0 ? 0 : errno;
}

int complain(int error, const char* what, const char* path) {
  char line[PATH_MAX + 256];
  TextWriter writer(line, sizeof line);
  writer.add("cannot ").add(what).add(" ").add(path).add(": ").add(strerror(error)).add("\n");
  write_all(2, line, writer.size());
  return error;
}

int write_all(int file, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t count = write(file, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    at += count;
    size -= static_cast<size_t>(count);
  }
  return 0;
}

int write_record(int directory, const char* name, Text shown) {
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  constexpr size_t kRecordBytesMax = sizeof(FileRecord) + 3 * PATH_MAX + kAttributesBytesMax;
  if (sizeof records - records_size < kRecordBytesMax) {
    if (const int error = flush_records()) return error;
  }
  static char target[PATH_MAX];
  static char end_path[PATH_MAX];
  static char attributes[kAttributesBytesMax];
  FileRecord record = {};
  record.magic = kFileRecordMagic;
  record.kind = kind_of(status.st_mode);
  record.mode = status.st_mode & 07777;
  record.uid = status.st_uid;
  record.gid = status.st_gid;
  record.size = static_cast<uint64_t>(status.st_size);
  record.inode = status.st_ino;
  record.modified_ns =
      static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
  record.name_size = static_cast<uint32_t>(shown.size);
  if (record.kind == FileKind::kLink) {
    const ssize_t size = readlinkat(directory, name, target, sizeof target);
    if (size > 0) record.link_size = static_cast<uint32_t>(size);
    follow_link(directory, name, &record, end_path);
  }
  if (record.kind == FileKind::kFile || record.kind == FileKind::kDirectory) {
    record.attributes_size = read_attributes(directory, name, attributes);
  }
  TextWriter writer(records + records_size, sizeof records - records_size);
  writer.add({reinterpret_cast<const char*>(&record), sizeof record}).add(shown);
  writer.add({target, record.link_size}).add({end_path, record.end_path_size});
  writer.add({attributes, record.attributes_size});
  if (!writer.fits()) return ENAMETOOLONG;
  records_size += writer.size();
  return 0;
}

int flush_records() {
  const size_t size = records_size;
  records_size = 0;
  return write_all(1, records, size);
}

int run_builtin(uint32_t argc, char** argv) {
  const Text name = text_of(argv[0]);
  uint64_t number = 0;
  uint64_t second = 0;
  if (argc == 4 && equal(name, text_of("read")) && parse_number(text_of(argv[2]), 10, &number) &&
      parse_number(text_of(argv[3]), 10, &second)) {
    return read_file(argv[1], number, second);
  }
  if (argc == 2 && equal(name, text_of("stat"))) return stat_one(argv[1]);
  if (argc == 2 && equal(name, text_of("remove"))) return remove_tree(argv[1]);
  if (argc == 3 && equal(name, text_of("rename"))) return rename_one(argv[1], argv[2]);
  if (argc == 3 && parse_number(text_of(argv[2]), 10, &number)) {
    if (equal(name, text_of("list"))) return list_directory(argv[1], number);
    if (equal(name, text_of("watch")) && number <= 1) return watch(argv[1], number == 1);
  }
  if (argc >= 3 && parse_number(text_of(argv[2]), 8, &number) && number <= 07777) {
    const auto mode = static_cast<uint32_t>(number);
    const bool writes = argc >= 4 && equal(name, text_of("write"));
    const bool makes = argc <= 4 && equal(name, text_of("mkdir"));
    Owner owner;
    const uint32_t owner_at = writes ? 4 : 3;
    if ((writes || makes) && argc > owner_at) {
      if (const int error = find_owner(argv[owner_at], &owner)) {
        return complain(error, "find user", argv[owner_at]);
      }
    }
    if (writes && (argc == 4 || argc % 2 == 1)) {
      const Attributes attributes{argc < 5 ? 0 : (argc - 5) / 2, argv + 5};
      return write_file(argv[1], mode, argv[3], owner, attributes);
    }
    if (makes) return make_one_directory(argv[1], mode, owner);
    if (argc == 3 && equal(name, text_of("chmod"))) return change_mode(argv[1], mode);
  }
  return complain(EINVAL, "run", argv[0]);
}

}  // namespace pons::cell
