#pragma once

#include <map>
#include <string>

#include "layer_view.h"
#include "pons/base/json.h"
#include "pons/base/result.h"
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
  std::map<std::string, std::string> environment;  // as the caller asked for it, for its forks
  std::map<std::string, std::string> labels;
  NetworkRequest network;
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

}  // namespace pons::sandbox
