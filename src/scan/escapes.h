#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pons/scan/needle_set.h"

namespace pons::scan {

// What stands at the start of a text, read as an escape sequence of one view.
struct Escape {
  enum class State : std::uint8_t { kNone, kNeedMore, kEscape } state = State::kNone;
  std::uint8_t raw_bytes = 0;  // of the sequence
  std::uint8_t byte_count = 0;
  char bytes[4] = {};  // what it stands for; nothing for a soft line break

  std::string_view decoded() const { return {bytes, byte_count}; }
};

inline constexpr std::size_t kEscapeBytesMax = 12;

// The character that each escape sequence of the view begins with.
char escape_trigger(View view);

// `text` begins with the trigger. Never kNeedMore for kEscapeBytesMax bytes or more.
Escape read_escape(View view, std::string_view text);

// Changes an escape sequence so that it stands for `byte`, keeping its length. Where no such
// sequence exists, something of that length takes its place that stands for neither byte.
void rewrite_escape(View view, std::span<char> sequence, char byte);

}  // namespace pons::scan
