#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "builtins.h"
#include "kernel.h"

namespace pons::cell {
namespace {

char buffer[64 * 1024];

// A FIFO without a partner and most devices would let the open or the first read wait for ever.
int open_regular(const char* path, int flags, uint32_t mode, int* file) {
  *file = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  if (*file < 0) return errno == ENXIO ? EINVAL : errno;
  struct stat status;
  if (fstat(*file, &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  return S_ISREG(status.st_mode) ? 0 : EINVAL;
}

int complain_about_open(int error, const char* path) {
  return complain(error, error == EINVAL ? "use what is not a regular file," : "open", path);
}

int copy_input(int file) {
  for (;;) {
    const ssize_t size = read(0, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno;
    if (size == 0) return 0;
    if (const int error = write_all(file, buffer, static_cast<size_t>(size))) return error;
  }
}

// A file beside `path` that nobody else has, for renaming over it.
int create_temporary(const char* path, uint32_t mode, char name[PATH_MAX], int* file) {
  const char* slash = strrchr(path, '/');
  const size_t directory = slash == nullptr ? 0 : static_cast<size_t>(slash - path) + 1;
  for (int attempt = 0; attempt < 16; ++attempt) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) return EIO;
    TextWriter writer(name, PATH_MAX);
    if (writer.add({path, directory}).add(".pons-").add_number(random).finish() == nullptr) {
      return ENAMETOOLONG;
    }
    *file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (*file >= 0) return 0;
    if (errno != EEXIST) return errno;
  }
  return EEXIST;
}

// Those that it has from before go.
int set_attributes(int file, const Attributes& attributes) {
  static char names[4096];
  const ssize_t size = flistxattr(file, names, sizeof names - 1);
  if (size > 0) names[size] = '\0';
  for (ssize_t at = 0; at < size; at += static_cast<ssize_t>(strlen(names + at)) + 1) {
    if (strncmp(names + at, "user.", 5) == 0) fremovexattr(file, names + at);
  }
  for (uint32_t i = 0; i < attributes.count; ++i) {
    const char* value = attributes.words[2 * i + 1];
    if (fsetxattr(file, attributes.words[2 * i], value, strlen(value), 0) != 0) return errno;
  }
  return 0;
}

int replace_in_one_step(const char* path, uint32_t mode, bool must_not_exist, const Owner& owner,
                        const Attributes& attributes) {
  static char name[PATH_MAX];
  int file = -1;
  struct stat status;
  if (lstat(path, &status) == 0) {
    if (must_not_exist) return complain(EEXIST, "create", path);
    if (S_ISDIR(status.st_mode)) return complain(EISDIR, "write", path);
  }
  if (const int error = create_temporary(path, mode, name, &file)) {
    return complain(error, "create a file beside", path);
  }
  int error = copy_input(file);
  if (error == 0) error = set_attributes(file, attributes);
  if (error == 0) error = give_file(file, owner);
  if (error == 0 && fchmod(file, mode) != 0) error = errno;
  if (error == 0 && close(file) != 0) error = errno;
  const unsigned flags = must_not_exist ? kRenameNoReplace : 0;
  if (error == 0 && syscall(SYS_renameat2, AT_FDCWD, name, AT_FDCWD, path, flags) != 0) {
    error = errno;
  }
  if (error == 0) return 0;
  unlink(name);
  return complain(error, "write", path);
}

}  // namespace

int read_file(const char* path, uint64_t offset, uint64_t size) {
  int file = -1;
  if (const int error = open_regular(path, O_RDONLY, 0, &file)) {
    return complain_about_open(error, path);
  }
  if (offset > INT64_MAX) return complain(EINVAL, "read", path);
  uint64_t left = size == 0 ? UINT64_MAX : size;
  while (left > 0) {
    const size_t piece = left < sizeof buffer ? left : sizeof buffer;
    const ssize_t count = pread(file, buffer, piece, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return complain(errno, "read", path);
    if (count == 0) break;
    if (const int error = write_all(1, buffer, static_cast<size_t>(count))) return error;
    offset += static_cast<uint64_t>(count);
    left -= static_cast<uint64_t>(count);
  }
  return 0;
}

int write_file(const char* path, uint32_t mode, const char* flags, const Owner& owner,
               const Attributes& attributes) {
  if (flags[strspn(flags, "caxs")] != '\0')
    return complain(EINVAL, "understand the flags for", path);
  const bool append = strchr(flags, 'a') != nullptr;
  const bool exclusive = strchr(flags, 'x') != nullptr;
  if (strchr(flags, 'c') != nullptr) {
    if (const int error = make_parents(path, owner))
      return complain(error, "create parents of", path);
  }
  if (strchr(flags, 's') != nullptr && !append)
    return replace_in_one_step(path, mode, exclusive, owner, attributes);
  const int open_flags = O_WRONLY | O_CREAT | (append ? O_APPEND : 0) | (exclusive ? O_EXCL : 0);
  int file = -1;
  if (const int error = open_regular(path, open_flags, mode, &file)) {
    return complain_about_open(error, path);
  }
  if (!append && ftruncate(file, 0) != 0) return complain(errno, "empty", path);
  int error = copy_input(file);
  if (error == 0) error = set_attributes(file, attributes);
  if (error == 0) error = give_file(file, owner);
  if (error != 0) return complain(error, "write", path);
  return close(file) == 0 ? 0 : complain(errno, "write", path);
}

}  // namespace pons::cell
