#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::files {

inline constexpr std::size_t kPartBytes = std::size_t{1} << 20;

struct FileLimits {
  std::int64_t bytes = 500LL << 20;         // of one file
  std::int64_t project_bytes = 20LL << 30;  // of all files of a project
  std::int64_t project_files = 100'000;
  std::int64_t upload_ms = 60LL * 60 * 1000;  // without a word of it, an upload was given up
  std::int64_t expired_ms = 30LL * 24 * 60 * 60 * 1000;  // so long an expired one is known as such
  std::int64_t removed_at_once = 16;                     // parts that one transaction removes
};

struct File {
  std::string id;
  std::string project;
  std::string name;  // without a folder
  std::string mime_type;
  std::string scope;  // the session that it is of; empty: none
  std::string place;  // where it lay in that session's machine; empty: nowhere
  std::int64_t bytes = 0;
  std::int64_t parts = 0;  // of kPartBytes each, the last may be shorter
  std::string digest;      // the same for the same bytes
  std::int64_t created_ms = 0;
  std::optional<std::int64_t> expires_ms = std::nullopt;
};

struct NewFile {
  std::string name;  // any text: what it becomes is file_name()
  std::string mime_type = {};
  std::string scope = {};
  std::string place = {};
  std::optional<std::int64_t> expires_in_ms = std::nullopt;
};

struct FilePosition {
  std::int64_t created_ms = 0;
  std::string id;
};
struct FileQuery {
  std::string scope = {};                            // empty: any
  std::optional<FilePosition> after = std::nullopt;  // of the page before
  std::int64_t limit = 20;
};

// Files of projects, in parts: nobody holds one whole. What belongs to another project is not
// found. A file is there when all of it is; one that was given up half-way is removed by sweep().
class FileStore {
 public:
  FileStore(store::Store& store, const Clock& clock, FileLimits limits = {})
      : store_(store), clock_(clock), limits_(limits) {}

  // A file while it comes. Destroyed before finish(), it never was.
  class Upload {
   public:
    // kInvalid: it would be too large. kLimit: the project's files together would.
    Task<Result<void>> write(std::string_view bytes);
    // When it fails, it never was.
    Task<Result<File>> finish(NewFile details);
    // Makes room again at once; otherwise sweep() does some time.
    Task<> give_up();

   private:
    friend class FileStore;
    Upload(FileStore& files, std::string project, std::string id)
        : files_(files), project_(std::move(project)), id_(std::move(id)) {}
    Task<Result<void>> store_part();

    FileStore& files_;
    std::string project_;
    std::string id_;
    std::string buffer_;
    std::int64_t parts_ = 0;
    std::int64_t bytes_ = 0;
    std::string digests_;
  };
  Task<Result<Upload>> begin(std::string project);

  // kNotFound; kDenied when it is there no more because its time is over.
  Task<Result<File>> find(std::string project, std::string id);
  // Of those ids, whichever are there, in no order.
  Task<Result<std::vector<File>>> find_all(std::string project, std::vector<std::string> ids);
  // Newest first; up to limit + 1, so that the caller sees whether there are more.
  Task<Result<std::vector<File>>> list(std::string project, FileQuery query);
  Task<Result<std::string>> read_part(const File& file, std::int64_t part);
  Task<Result<void>> remove(std::string project, std::string id);
  // Removes what expired, what was given up, and what is left of removed ones. Now and then.
  Task<Result<void>> sweep();

  const FileLimits& limits() const { return limits_; }

 private:
  std::int64_t now_ms() const;
  // Of one that nobody can find any more.
  Task<Result<void>> remove_parts(std::string id);
  Task<Result<void>> forget(File file);
  Task<Result<void>> leave_a_note(File file);

  store::Store& store_;
  const Clock& clock_;
  const FileLimits limits_;
};

}  // namespace pons::files
