#pragma once

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pons/linux/loop.h"
#include "pons/linux/simulated_time.h"
#include "pons/session/sessions.h"

// A world for sessions in which every wait may take long, fail, fail after it has worked, or be the
// last thing that the process does. The same seed gives the same run.

namespace pons::session {

struct SimulationSettings {
  std::uint64_t seed = 1;
  int sessions = 3;
  int messages = 2;           // to each of them
  int commands = 4;           // at most, per turn
  double fault = 0.05;        // of each wait
  bool rival = false;         // a second process, which takes sessions that are not free
  bool forget_calls = false;  // breaks the cell's job table: the check must notice
};

struct SimulationOutcome {
  bool finished = false;
  std::vector<std::string> violations;
  int crashes = 0;
  int faults = 0;
  int commands = 0;
  std::vector<std::vector<StoredEvent>> logs;
};

SimulationOutcome simulate(const SimulationSettings& settings);

}  // namespace pons::session
