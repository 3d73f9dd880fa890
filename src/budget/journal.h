#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "journal_record.h"
#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::budget {

struct JournalOptions {
  std::string directory;  // must be there, and nobody else's
  std::size_t file_bytes = 8ULL << 20;
  Duration sync_interval = std::chrono::milliseconds(200);
};

// Append-only files of records. What append() has written survives the death of the process, and
// after sync_interval that of the machine. A thread syncs and removes; the rest belongs to a loop.
class Journal {
 public:
  // kConflict: another process has the directory.
  static Result<std::unique_ptr<Journal>> open(JournalOptions options);
  ~Journal();

  struct OldFile {
    std::int64_t number = 0;
    std::vector<Record> records;
  };
  // What processes before have left, in the order in which it was written. Of a file with damage in
  // its middle it is what stands before that, and the file gets a second name.
  Result<std::vector<OldFile>> read_old() const;

  // From now on records go to a new file, which begins with `first`. On failure nothing changes.
  Result<void> begin_file(std::int64_t number, std::string_view first);
  // In one write. kUnavailable when there is no room or the disk fails: then nothing is written.
  Result<void> append(std::string_view records);
  // Soon, and not before the current file is on the disk.
  void remove(std::int64_t number);

  std::int64_t number() const { return number_; }
  bool is_full() const { return size_ - first_bytes_ >= options_.file_bytes; }

 private:
  class Disk;
  Journal(JournalOptions options, linux::UniqueFd lock);
  std::string path_of(std::int64_t number) const;
  Result<void> keep_aside(const std::string& path, std::int64_t number, const Records& read) const;

  JournalOptions options_;
  linux::UniqueFd lock_;
  std::int64_t number_ = 0;
  std::size_t size_ = 0;
  std::size_t first_bytes_ = 0;  // what it began with
  std::shared_ptr<linux::UniqueFd> file_;
  std::unique_ptr<Disk> disk_;
};

}  // namespace pons::budget
