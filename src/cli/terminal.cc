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

// What terminals obey instead of showing: C0, DEL, and U+0080 to U+009F.
bool begins_with_control(std::string_view text) {
  const auto c = static_cast<unsigned char>(text[0]);
  return c < 0x20 || c == 0x7F ||
         (c == 0xC2 && text.size() > 1 && (static_cast<unsigned char>(text[1]) & 0xE0) == 0x80);
}

// Code points, which is as near to columns as needed here.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text, LineFeeds line_feeds) {
  std::string clean;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool kept = text[at] == '\n' && line_feeds == LineFeeds::kKept;
    if (kept || !begins_with_control(text.substr(at))) {
      clean += text[at];
    } else {
      clean += '?';
      if (text[at] == '\xC2') ++at;
    }
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
