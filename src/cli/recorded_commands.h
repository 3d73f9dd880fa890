#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/json.h"
#include "pons/session/world.h"

namespace pons::cli {

// A command of a session, as it went then.
struct Then {
  std::int64_t seq = 0;
  std::string tool;
  std::string shown;  // what was asked for, for people
  session::ExecuteOrder order;
  std::string sandbox;  // in which it ran, as the conversation knows it
  std::string outcome;  // empty: nobody knows
  std::string result;
  bool is_error = false;
  std::string full;  // digest of all of its output, when the result shows only a part
  std::int64_t took_ms = 0;
  std::string incomparable;  // why nothing can be said of its result; it is run all the same
};

// A call of a tool that runs commands, of which nothing can be said.
struct Skipped {
  std::int64_t seq = 0;
  std::string tool;
  std::string why;
};

// In the order in which they were called.
struct Commands {
  std::vector<Then> all;
  std::vector<Skipped> skipped;
  std::map<std::string, std::string> templates;  // by sandbox
};

// Those of a session's log, as others see it. Which never ran, or not to their end, are skipped.
Commands commands_of(const std::vector<Json>& events);

// What a command came to, apart from how long it took.
struct Told {
  std::string output;  // or the part of it that the model reads
  std::string ending;  // empty: the tool tells only what it found
  std::optional<int> exit_code;
  bool operator==(const Told&) const = default;
};
Told read_result(const std::string& text);

}  // namespace pons::cli
