#pragma once

namespace pons {

// Prints one line naming the broken assumption and ends the process. Restart is cheap by design;
// going on is not.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace pons

// For what cannot happen unless Pons has a bug. Stays on in release builds. Never for anything that
// input, the network or the environment can cause: those are Errors.
#define CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::pons::check_failed(#condition, __FILE__, __LINE__))
