#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/models/answer.h"

namespace pons::budget {

// How a call ended.
enum class Outcome : std::uint8_t {
  kDone,
  kFailed,     // the provider or the way to it
  kCancelled,  // the client left
  kExpired,    // nobody settled it in time
  kLost,       // the process died over it
  kSandbox,    // not a call: time of a sandbox
};
inline constexpr std::size_t kOutcomes = 6;
std::string_view name_of(Outcome outcome);  // "done" … "sandbox"

// Days since 1970, UTC; both ends are in it.
struct UsageQuery {
  // kAgents: of each agent, at or below `node_id`.
  enum class Of : std::uint8_t { kNodes, kAgents };
  std::string project_id;
  std::string node_id = {};  // empty: all
  Of of = Of::kNodes;
  std::string agent = {};  // of kAgents, the name of one; empty: all
  std::string model = {};  // empty: all
  std::int64_t first_day = 0;
  std::int64_t last_day = INT64_MAX;
  std::int64_t rows_max = 1'000;
  std::int64_t skip = 0;  // rows of the pages before
};

// What a node and all below it used of a model on a day: the rows of a project's root are the sums
// of the project.
struct UsageRow {
  std::string node_id;
  std::string agent = {};  // its name, if the node is one
  std::string model;
  std::int64_t day = 0;
  models::Usage usage;
  std::int64_t sandbox_seconds = 0;
  std::int64_t requests = 0;
  std::int64_t cost_nano = 0;
  bool operator==(const UsageRow&) const = default;
};

}  // namespace pons::budget
