#pragma once

#include <map>
#include <string>
#include <vector>

#include "layer_view.h"
#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/sandbox/provider.h"
#include "spawning.h"

namespace pons::sandbox {

// A command whose changes are undone or kept when it ends.
struct PendingTransaction {
  std::string checkpoint;
  Transaction kind = Transaction::kNone;
};

// What a warden must know about a sandbox to take it over from one that was killed.
struct SandboxRecord {
  std::string id;
  std::uint64_t key = 0;
  std::string template_name;
  SandboxSpec spec;  // as built, with the limits of today
  Limits limits;
  std::map<std::string, std::string> labels;
  bool ephemeral = false;
  bool warm = false;
  std::int64_t created_unix_ms = 0;
  bool paused = false;
  bool auto_frozen = false;
  LayerView view;
  std::map<std::string, PendingTransaction> transactions;  // by job
};

Json to_json(const SandboxRecord& record);
// kInvalid unless everything is there and makes sense.
Result<SandboxRecord> parse_record(const Json& json);

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
