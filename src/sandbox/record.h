#pragma once

#include <map>
#include <string>

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

// The file of record of a sandbox: two places, written in turn, of which the newer whole one
// counts. Replacing a file would make the kernel write it to disk at once, and a record must only
// outlive the warden. It is made, empty, before anybody claims the sandbox: at that moment making a
// file would be most of the work.
class Note {
 public:
  static std::string path(const std::string& state_dir, std::uint64_t key);
  static Result<Note> create(const std::string& state_dir, std::uint64_t key);
  // What stands in a file; kNotFound in one that was never written.
  static Result<struct Noted> read(const std::string& path);

  // After the first time its file is opened again for each.
  Result<void> write(const std::string& state_dir, const SandboxRecord& record);

 private:
  linux::UniqueFd file_;
  std::uint64_t number_ = 0;  // of the last one
};

struct Noted {
  SandboxRecord record;
  Note note;
};

}  // namespace pons::sandbox
