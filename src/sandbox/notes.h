#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pons/linux/fd.h"
#include "record.h"

namespace pons::sandbox {

// A file of record: two places, written in turn, of which the newer whole one counts. Replacing a
// file would make the kernel write it to disk at once, and a record must only outlive the warden.
class Note {
 public:
  Note() = default;
  explicit operator bool() const { return static_cast<bool>(file_); }
  Result<void> write(const SandboxRecord& record);

 private:
  friend class Notes;
  Note(std::string name, linux::UniqueFd file) : name_(std::move(name)), file_(std::move(file)) {}
  std::string name_;
  linux::UniqueFd file_;
  std::uint64_t number_ = 0;  // of the last record written
  bool blank_ = true;         // nothing stands in the file
};

struct Noted {
  SandboxRecord record;
  Note note;
};

// The files of record in a directory. They serve again: making and removing files is dear when
// sandboxes come and go by the hundred.
class Notes {
 public:
  explicit Notes(std::string directory) : directory_(std::move(directory)) {}

  // What a former warden left. Files in which nothing stands wait for use.
  std::vector<Noted> load();
  Result<Note> take();
  void give_back(Note note);  // what stands in it is forgotten

 private:
  Result<Note> open(const std::string& name, int more_flags) const;
  std::string directory_;
  std::uint64_t next_name_ = 0;
  std::vector<Note> free_;
};

}  // namespace pons::sandbox
