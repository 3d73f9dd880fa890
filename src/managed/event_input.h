#pragma once

#include <string>
#include <vector>

#include "pons/managed/fields.h"
#include "pons/session/event.h"

namespace pons::managed {

enum class Inputs : std::uint8_t { kAny, kInitial };

// The logs that a client's events may go to.
struct Recipients {
  std::string session;
  std::vector<std::string> threads = {};  // sessions of the agents that work for it
};

// One event of {"events": […]}, and the log that takes it.
struct Input {
  session::Event event;
  std::string session;
};
// Ids of calls and threads must be of these; files have been brought already (named_files.h).
Result<Input> read_input(const JsonPlace& place, const Recipients& recipients, Inputs which);
// Up to 50.
Result<std::vector<Input>> read_inputs(const JsonPlace& place, const char* key,
                                       const Recipients& recipients, Inputs which);

}  // namespace pons::managed
