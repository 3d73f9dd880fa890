#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pons::cli {

enum class Tone : std::uint8_t { kPlain, kGood, kBad, kDim, kStrong };

enum class LineFeeds : std::uint8_t { kKept, kReplaced };

// The text with every control character shown as '?': it may come from a process that is in an
// attacker's hands.
std::string printable(std::string_view text, LineFeeds line_feeds = LineFeeds::kReplaced);

// Colours only on a terminal, and not when NO_COLOR is set. Control characters in `text` are shown
// as '?'.
std::string paint(std::string_view text, Tone tone);

struct Cell {
  Cell(std::string t) : text(std::move(t)) {}
  Cell(const char* t) : text(t) {}
  Cell(std::string t, Tone c) : text(std::move(t)), tone(c) {}
  std::string text;
  Tone tone = Tone::kPlain;
};

// Columns as wide as their widest cell, two spaces apart.
void print_table(const std::vector<std::vector<Cell>>& rows);

// How long ago that was, for people.
std::string age_of(std::int64_t unix_ms);

// "pons: warning: …" on standard error, made printable.
void print_warning(std::string_view message);

// "pons: …" on standard error, made printable; may have several lines.
void print_error(std::string_view message);

}  // namespace pons::cli
