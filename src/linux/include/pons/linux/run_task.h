#pragma once

#include <optional>
#include <utility>

#include "pons/base/check.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"

namespace pons::linux {

// Runs the loop until the task has ended: for programs and tests that have one thing to wait for.
template <class T>
T run_to_end(Loop& loop, Task<T> task) {
  std::optional<T> value;
  const auto finish = [](Task<T> work, std::optional<T>& result, Loop& on) -> Task<> {
    struct Stop {
      Loop& loop;
      ~Stop() { loop.stop(); }  // also when the task throws
    } const at_end{on};
    result.emplace(co_await std::move(work));
  };
  TaskGroup group(loop);
  group.spawn(finish(std::move(task), value, loop));
  loop.run();
  CHECK(value.has_value());
  return *std::move(value);
}

}  // namespace pons::linux
