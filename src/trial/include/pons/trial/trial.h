#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/harness/recipe.h"
#include "pons/sandbox/provider.h"

// Whether a harness keeps what Pons promises of every harness: tried for real, in sessions of a
// Pons that is thrown away afterwards, whose model is a script in this process.

namespace pons::trial {

struct Order {
  std::string program;    // of Pons, which is started
  std::string directory;  // is made, and removed: the state directory of that Pons
  std::string layers;     // those of the harness, by their digests, on the same file system
  std::string harness;    // "native", or the name of the recipe
  std::optional<harness::Recipe> recipe = {};
  std::string own_recipe = {};  // its text where it is the operator's own: JSON; empty: ours
  std::vector<sandbox::TemplateInfo> templates = {};  // of the harness
  std::string only = {};                              // stories whose name holds this; empty: all
  bool with_long = false;                             // those that take minutes, too
};

struct Finding {
  std::string place;    // "native", "brain" or "sandbox"
  std::string story;    // that it is part of
  std::string promise;  // a sentence
  bool is_kept = false;
  std::string why;  // not
  std::chrono::milliseconds took{};
};

// Tells each as soon as it is known. An error: nothing could be tried, or `stop_fd` (-1: none)
// became readable.
Result<std::vector<Finding>> try_harness(const Order& order, int stop_fd,
                                         const std::function<void(const Finding&)>& tell);

}  // namespace pons::trial
