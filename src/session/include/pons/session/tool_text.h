#pragma once

#include <string>

#include "pons/session/event.h"
#include "pons/session/log.h"
#include "pons/session/world.h"

namespace pons::session {

// What the model reads of a command's output at most; all of it is kept beside,
inline constexpr std::size_t kResultBytesMax = 24 * 1024;
// or the end of it.
inline constexpr std::size_t kKeptBytesMax = 10 << 20;

// A tool's result as the model reads it, and what is kept beside it.
struct ToolText {
  std::string text;
  bool is_error = false;
  std::optional<Blob> full = std::nullopt;
};

// The output, and a last line that says how it ended.
ToolText describe(ExecuteReport report);

// Any text that may be long.
ToolText describe(std::string text, bool is_error);

// The beginning and the end of it, and how much is missing in between. Never cuts a character.
std::string shorten(std::string_view text, std::size_t bytes_max);

// The same as UTF-8 without NUL: what is neither becomes U+FFFD.
std::string printable(std::string text);

}  // namespace pons::session
