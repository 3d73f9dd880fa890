#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace pons::cli {

namespace {

bool colors_wanted() {
  static const bool wanted = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  return wanted;
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

std::string printable(std::string_view text) {
  std::string clean(text);
  std::ranges::replace_if(
      clean, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  return clean;
}

}  // namespace

std::string paint(std::string_view text, Tone tone) {
  if (tone == Tone::kPlain || !colors_wanted()) return printable(text);
  return fmt::format("{}{}\x1b[0m", code_of(tone), printable(text));
}

void print_table(const std::vector<std::vector<Cell>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].text.size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += paint(row[i].text, row[i].tone);
      if (i + 1 < row.size()) line.append(widths[i] - row[i].text.size() + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

void print_error(std::string_view message) {
  fmt::print(stderr, "pons: {}\n", message);
}

}  // namespace pons::cli
