#include "text_diff.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::cli {

namespace {

constexpr std::size_t kContext = 3;
// What is looked at of each text, from its first difference on.
constexpr std::size_t kWindowBytes = 256 << 10;
// Cells of the table of common lines. Where more were needed, all lines count as different.
constexpr std::size_t kCellsMax = 1 << 20;

using Lines = std::vector<std::string_view>;

// Each with its line feed.
Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

struct Edit {
  char kind = ' ';  // or '-', '+'
  std::string_view line;
};

// What makes `after` of `before`: as few lines as possible are taken away and added.
std::vector<Edit> edits_between(Lines before, Lines after) {
  std::vector<Edit> edits;
  std::size_t head = 0;
  while (head < std::min(before.size(), after.size()) && before[head] == after[head])
    edits.push_back({' ', before[head++]});
  std::size_t tail = 0;
  while (tail < std::min(before.size(), after.size()) - head &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
    ++tail;
  const std::size_t rows = before.size() - tail;
  const std::size_t columns = after.size() - tail;
  const std::size_t width = columns - head + 1;
  const bool fits = (rows - head + 1) <= kCellsMax / width;
  // Of the lines from there on, how many are common.
  std::vector<std::uint32_t> common(fits ? (rows - head + 1) * width : 0);
  const auto cell = [&](std::size_t row, std::size_t column) -> std::uint32_t& {
    return common[(row - head) * width + column - head];
  };
  if (fits)
    for (std::size_t i = rows; i-- > head;)
      for (std::size_t j = columns; j-- > head;)
        cell(i, j) = before[i] == after[j] ? cell(i + 1, j + 1) + 1
                                           : std::max(cell(i + 1, j), cell(i, j + 1));
  std::size_t i = head;
  std::size_t j = head;
  while (i < rows || j < columns) {
    if (fits && i < rows && j < columns && before[i] == after[j]) {
      edits.push_back({' ', before[i++]});
      ++j;
    } else if (i < rows && (!fits || j == columns || cell(i + 1, j) >= cell(i, j + 1))) {
      edits.push_back({'-', before[i++]});
    } else {
      edits.push_back({'+', after[j++]});
    }
  }
  for (; i < before.size(); ++i) edits.push_back({' ', before[i]});
  return edits;
}

// Where pieces begin and end that are shown: changes, and what is around them.
struct Hunk {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<Hunk> hunks_of(const std::vector<Edit>& edits) {
  std::vector<Hunk> hunks;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    if (edits[i].kind == ' ') continue;
    const std::size_t begin = i < kContext ? 0 : i - kContext;
    const std::size_t end = std::min(edits.size(), i + 1 + kContext);
    if (!hunks.empty() && begin <= hunks.back().end)
      hunks.back().end = end;
    else
      hunks.push_back({begin, end});
  }
  return hunks;
}

// "12,3", or the line before where there is none.
std::string range(std::size_t first, std::size_t count) {
  return fmt::format("{},{}", count == 0 ? first - 1 : first, count);
}

std::string shown(const Edit& edit, std::size_t bytes_max) {
  std::string_view line = edit.line;
  const bool is_ended = line.ends_with('\n');
  if (is_ended) line.remove_suffix(1);
  std::string text(1, edit.kind);
  if (line.size() <= bytes_max) {
    text += line;
  } else {
    std::string_view part = line.substr(0, bytes_max);
    for (int i = 0; i < 3 && !is_valid_utf8(part); ++i) part.remove_suffix(1);
    text += fmt::format("{} [… {} more]", part, human_bytes(line.size() - part.size()));
  }
  text += is_ended ? "\n" : "\n\\ No line feed at the end\n";
  return text;
}

// The beginning of a text, in whole lines where there are several.
std::string_view window(std::string_view text) {
  if (text.size() <= kWindowBytes) return text;
  const std::size_t last = text.rfind('\n', kWindowBytes - 1);
  return text.substr(0, last == text.npos ? kWindowBytes : last + 1);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, DiffLimits limits) {
  if (before == after) return {};
  // Back from the first difference to its line, and to those that are shown before it.
  std::size_t begin =
      static_cast<std::size_t>(std::ranges::mismatch(before, after).in1 - before.begin());
  for (std::size_t lines = 0; begin > 0; --begin)
    if (before[begin - 1] == '\n' && lines++ == kContext) break;
  const auto first =
      1 + static_cast<std::size_t>(std::ranges::count(before.substr(0, begin), '\n'));
  before.remove_prefix(begin);
  after.remove_prefix(begin);
  const bool is_cut = before.size() > kWindowBytes || after.size() > kWindowBytes;
  const std::vector<Edit> edits = edits_between(lines_of(window(before)), lines_of(window(after)));

  std::string text;
  std::size_t lines = 0;
  std::size_t left_out = 0;
  std::size_t at = 0;
  std::size_t line_before = first;
  std::size_t line_after = first;
  const auto pass = [&](const Edit& edit) {
    line_before += edit.kind != '+' ? 1 : 0;
    line_after += edit.kind != '-' ? 1 : 0;
  };
  for (const Hunk& hunk : hunks_of(edits)) {
    for (; at < hunk.begin; ++at) pass(edits[at]);
    const auto begins_before = line_before;
    const auto begins_after = line_after;
    std::string body;
    for (; at < hunk.end; ++at) {
      pass(edits[at]);
      if (lines < limits.lines_max) {
        ++lines;
        body += shown(edits[at], limits.line_bytes_max);
      } else if (edits[at].kind != ' ') {
        ++left_out;
      }
    }
    if (!body.empty())
      text += fmt::format("@@ -{} +{} @@\n{}", range(begins_before, line_before - begins_before),
                          range(begins_after, line_after - begins_after), body);
  }
  if (left_out > 0) text += fmt::format("[… {} more lines differ]\n", left_out);
  if (is_cut)
    text += fmt::format("[… behind these {} nothing was compared]\n", human_bytes(kWindowBytes));
  return text;
}

}  // namespace pons::cli
