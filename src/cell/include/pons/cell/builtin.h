#pragma once

#include <stdint.h>

// Programs inside the cell, started as jobs with kBuiltin. They run as the job's user, inside the
// sandbox's own root and control groups: a path means what it means to the sandbox, so no link and
// no ".." leads anywhere else, and what is written is charged to the sandbox.
//
// argv                         input          output
// read PATH OFFSET SIZE        -              the bytes; SIZE 0 is "to the end"
// write PATH MODE FLAGS        the bytes      -           flags: c create parents, a append,
//   [OWNER [NAME VALUE]…]                                x must not exist, s via a temporary file
//                                                        that replaces PATH in one step
// stat PATH                    -              FileRecord
// list PATH DEPTH              -              FileRecord …, parents before their children
// watch PATH RECURSIVE         -              WatchRecord … until killed
// mkdir PATH MODE [OWNER]      -              FileRecord; parents too; "exists" is exit code 17
// remove PATH                  -              - ; the whole tree, never through a link
// rename FROM TO               -              FileRecord of TO
// chmod PATH MODE              -              FileRecord
//
// MODE is octal, other numbers are decimal. A relative path begins at the user's home. list leaves
// out PATH itself and goes at most 64 levels deep. Only regular files are read and written: EINVAL.
// An overflow of watch is a kWrite of "". OWNER is a user's name or number, whose becomes what is
// made; empty: whoever makes it. NAME and VALUE are extended attributes of the file.
//
// Exit code 0, or the errno of what failed, with one line about it on standard error.

namespace pons::cell {

inline constexpr uint32_t kFileRecordMagic = 0x46494C45;   // "FILE"
inline constexpr uint32_t kWatchRecordMagic = 0x57415443;  // "WATC"

inline constexpr uint32_t kAttributesBytesMax = 8192;

enum class FileKind : uint32_t { kOther = 0, kFile = 1, kDirectory = 2, kLink = 3 };

// Followed by name_size bytes of path relative to the argument (empty for the argument itself) and
// link_size bytes of the link's target. Paths are bytes and may be no valid UTF-8. Of a link that
// leads somewhere, has_end is 1 and end_… tell what the kernel finds there; end_path_size bytes say
// where that is, as far as it has a name. Behind them stand attributes_size bytes: name and value
// of each extended attribute of "user.", zero-terminated, as far as there is room and no zero in
// them.
struct FileRecord {
  uint32_t magic;
  FileKind kind;
  uint32_t mode;  // permission bits
  uint32_t uid;
  uint32_t gid;
  uint32_t name_size;
  uint32_t link_size;
  uint32_t attributes_size;
  uint64_t size;
  uint64_t inode;
  int64_t modified_ns;
  uint32_t has_end;
  FileKind end_kind;
  uint32_t end_mode;
  uint32_t end_path_size;
  uint64_t end_size;
};

enum class Change : uint32_t { kCreate = 1, kWrite = 2, kRemove = 3, kRename = 4, kMode = 5 };

struct WatchRecord {
  uint32_t magic;
  Change change;
  uint32_t name_size;  // bytes of path, relative to the watched directory, that follow
  uint32_t reserved;
};

static_assert(sizeof(FileRecord) == 80 && sizeof(WatchRecord) == 16);

}  // namespace pons::cell
