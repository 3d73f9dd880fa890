#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pons::templates {

// What a person who waits sees.
struct Progress {
  std::string what;         // "layer 2 of 5"
  std::uint64_t done = 0;   // bytes or steps
  std::uint64_t total = 0;  // 0: not known
};
using ProgressSink = std::function<void(const Progress&)>;

}  // namespace pons::templates
