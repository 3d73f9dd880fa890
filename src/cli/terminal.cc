#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::cli {

namespace {

bool colors_wanted() {
  static const bool kWanted = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return kWanted;
}

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[1;31m";
    case Tone::kDim:
      return "\x1b[2m";
    case Tone::kStrong:
      return "\x1b[1m";
  }
  return "";
}

// Bytes of what terminals obey instead of showing, at the beginning of a text: C0, DEL, U+0080 to
// U+009F, and what turns the direction of writing around (U+202A to U+202E, U+2066 to U+2069).
std::size_t bytes_of_control(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (at(0) < 0x20 || at(0) == 0x7F) return 1;
  if (at(0) == 0xC2 && (at(1) & 0xE0U) == 0x80) return 2;
  const bool turns = (at(1) == 0x80 && at(2) >= 0xAA && at(2) <= 0xAE) ||
                     (at(1) == 0x81 && at(2) >= 0xA6 && at(2) <= 0xA9);
  return at(0) == 0xE2 && turns ? 3 : 0;
}

// Code points, which is as near to columns as needed here.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text, LineFeeds line_feeds) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const bool kept = text[at] == '\n' && line_feeds == LineFeeds::kKept;
    const std::size_t control = kept ? 0 : bytes_of_control(text.substr(at));
    clean += control > 0 ? '?' : text[at];
    at += std::max<std::size_t>(1, control);
  }
  return clean;
}

std::string paint(std::string_view text, Tone tone) {
  if (tone == Tone::kPlain || !colors_wanted()) return printable(text);
  return fmt::format("{}{}\x1b[0m", code_of(tone), printable(text));
}

void print_table(const std::vector<std::vector<Cell>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width_of(printable(row[i].text)));
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += paint(row[i].text, row[i].tone);
      if (i + 1 < row.size()) line.append(widths[i] - width_of(printable(row[i].text)) + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

std::string age_of(std::int64_t unix_ms) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  // A clock that was set back must not make an age of centuries.
  return human_duration(unix_ms < now.count() && unix_ms >= 0
                            ? static_cast<std::uint64_t>(now.count() - unix_ms)
                            : 0);
}

void print_warning(std::string_view message) {
  fmt::print(stderr, "pons: warning: {}\n", printable(message, LineFeeds::kKept));
}

void print_error(std::string_view message) {
  fmt::print(stderr, "pons: {}\n", printable(message, LineFeeds::kKept));
}

}  // namespace pons::cli
