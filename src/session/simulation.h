#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pons/session/event.h"
#include "simulated_fate.h"

// A world for sessions in which every wait may take long, fail, fail after it has worked, or be the
// last thing that the process does; in which the clock jumps, the disk is full for a while, people
// interrupt, and the model does whatever models do. The same seed gives the same run.

namespace pons::session {

struct SimulationSettings {
  std::uint64_t seed = 1;
  int sessions = 3;
  int messages = 2;                                  // to each of them
  int steps = 4;                                     // of the model, at most, per turn
  double fault = 0.05;                               // of each wait
  std::optional<OneFault> one_fault = std::nullopt;  // and this one
  bool rival = false;         // a second node, which takes sessions that are not free
  bool forget_calls = false;  // breaks the cell's job table: the check must notice
};

struct SimulationOutcome {
  bool finished = false;
  std::vector<std::string> violations;
  int crashes = 0;
  int waits = 0;  // at which something could have gone wrong
  int faults = 0;
  int commands = 0;
  int notes = 0;
  int server_calls = 0;
  int left_sandboxes = 0;  // that live, though no session has them
  int handed_over = 0;     // said to the process that did not have the session
  int moves = 0;           // of sessions from one node to the other
  std::vector<std::vector<StoredEvent>> logs;
};

SimulationOutcome simulate(const SimulationSettings& settings);

}  // namespace pons::session
