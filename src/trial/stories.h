#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scene.h"

namespace pons::trial {

// Where a story says which promises were kept. It goes no further than the first that was not,
// where the others stand on that one.
class Telling {
 public:
  using Tell = std::function<void(std::string_view promise, const Result<void>& outcome)>;
  explicit Telling(Tell tell) : tell_(std::move(tell)) {}
  // True: go on.
  bool keep(std::string_view promise, const Result<void>& outcome) {
    tell_(promise, outcome);
    return outcome.has_value();
  }

 private:
  Tell tell_;
};

// One session, or some, from which promises can be told. Its agent and its model are its own.
struct Story {
  std::string_view name;
  Task<> (*tell)(Scene& scene, Telling& telling);
  Script script;
  std::int64_t budget_tokens = 0;  // of its agent
  bool of_guests = false;          // there is nothing to tell where no harness is
  bool is_alone = false;           // it kills what others need
  bool is_long = false;            // it takes minutes
};

std::span<const Story> work_stories();   // stories of tasks that go well
std::span<const Story> fault_stories();  // interrupts, deaths, models that fail
std::span<const Story> wall_stories();   // what a harness must not do

}  // namespace pons::trial
