#include "path_pattern.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::vault {

namespace {

constexpr std::size_t kPatternBytesMax = 1024;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// One segment without its percent-encoding; nothing when it means something other than a name.
std::optional<std::string> plain_segment(std::string_view segment) {
  std::string plain;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    char c = segment[i];
    if (c == '%') {
      if (segment.size() - i < 3 || digit_of(segment[i + 1]) < 0 || digit_of(segment[i + 2]) < 0)
        return std::nullopt;
      c = static_cast<char>(digit_of(segment[i + 1]) * 16 + digit_of(segment[i + 2]));
      i += 2;
      // Encoded twice: whoever decodes once more sees another path.
      if (c == '%' || c == '/') return std::nullopt;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\' || c == ';' || c == '?' ||
        c == '#')
      return std::nullopt;
    plain += c;
  }
  if (plain == "." || plain == "..") return std::nullopt;
  return plain;
}

// The decoded segments; the last may be empty, as in "/a/".
std::optional<std::vector<std::string>> plain_segments(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::vector<std::string> segments;
  const auto parts = split(path.substr(1), '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto plain = plain_segment(parts[i]);
    if (!plain || (plain->empty() && i + 1 < parts.size())) return std::nullopt;
    segments.push_back(std::move(*plain));
  }
  return segments;
}

}  // namespace

Result<void> check_path_pattern(std::string_view pattern) {
  const auto wrong = [&](std::string_view why) {
    return make_error(ErrorCode::kInvalid, "read path",
                      fmt::format("\"{}\" {}", pattern.substr(0, 64), why));
  };
  if (pattern.size() > kPatternBytesMax) return wrong("has more than 1024 characters");
  const auto segments = plain_segments(pattern);
  if (!segments) return wrong("is not a path of plain segments that begins with /");
  for (std::size_t i = 0; i < segments->size(); ++i) {
    const std::string& segment = (*segments)[i];
    if (segment == "**" && i + 1 < segments->size()) return wrong("has ** before its end");
    if (segment != "*" && segment != "**" && segment.find('*') != std::string::npos)
      return wrong("has a * that is not a segment of its own");
  }
  return {};
}

bool path_matches(std::string_view pattern, std::string_view path) {
  const auto wanted = plain_segments(pattern);
  const auto given = plain_segments(path);
  if (!wanted || !given) return false;
  for (std::size_t i = 0; i < wanted->size(); ++i) {
    if (i >= given->size()) return false;
    if ((*wanted)[i] == "**") return true;
    const bool any = (*wanted)[i] == "*" && !(*given)[i].empty();
    if (!any && (*wanted)[i] != (*given)[i]) return false;
  }
  return wanted->size() == given->size();
}

}  // namespace pons::vault
