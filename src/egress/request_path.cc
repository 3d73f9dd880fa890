#include "request_path.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::egress {
namespace {

constexpr std::size_t kPathBytesMax = 16 * 1024;
constexpr std::size_t kPatternBytesMax = 1024;

Error refuse(const char* why) {
  return make_error(ErrorCode::kInvalid, "read request path", why);
}

bool is_unreserved(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Reads the escape at the start of `text` and appends its one form.
Result<void> append_escape(std::string_view text, std::string& path) {
  if (text.size() < 3 || hex_value(text[1]) < 0 || hex_value(text[2]) < 0)
    return refuse("a percent sign without two hexadecimal digits");
  const auto byte = static_cast<unsigned char>(hex_value(text[1]) * 16 + hex_value(text[2]));
  if (byte == '/' || byte == '\\' || byte == '%' || byte < 0x20 || byte == 0x7F)
    return refuse("an escaped slash, backslash, percent sign or control character");
  static constexpr char kDigits[] = "0123456789ABCDEF";
  if (is_unreserved(byte))
    path += static_cast<char>(byte);
  else
    path.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  return {};
}

// Some servers cut parameters off ("..;x") before they resolve dot segments.
bool is_dot_segment(std::string_view segment) {
  segment = segment.substr(0, segment.find(';'));
  return segment == "." || segment == "..";
}

Result<void> check_segments(std::string_view path) {
  const auto segments = split(path.substr(1), '/');
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].empty() && i + 1 < segments.size()) return refuse("an empty segment (//)");
    if (is_dot_segment(segments[i])) return refuse("a dot segment");
  }
  return {};
}

bool matches_segment(std::string_view pattern, std::string_view text) {
  if (pattern == "*") return !text.empty();
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view before = pattern.substr(0, star);
  const std::string_view after = pattern.substr(star + 1);
  return text.size() >= before.size() + after.size() && text.starts_with(before) &&
         text.ends_with(after);
}

}  // namespace

Result<std::string> normalize_path(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (target.size() > kPathBytesMax) return refuse("longer than 16 KiB");
  if (!target.starts_with('/')) return refuse("does not begin with a slash");
  std::string path;
  path.reserve(target.size());
  for (std::size_t i = 0; i < target.size(); ++i) {
    const auto c = static_cast<unsigned char>(target[i]);
    if (c <= 0x20 || c >= 0x7F || c == '\\' || c == '#')
      return refuse("a backslash, a fragment, or a byte that is not visible ASCII");
    if (c != '%') {
      path += target[i];
      continue;
    }
    TRY_VOID(append_escape(target.substr(i), path));
    i += 2;
  }
  TRY_VOID(check_segments(path));
  return path;
}

Result<PathPattern> PathPattern::parse(std::string_view text) {
  if (text.size() > kPatternBytesMax) return refuse("a pattern has at most 1024 bytes");
  if (!text.starts_with('/'))
    return refuse("a pattern begins with a slash: it is about the whole path");
  if (text.contains('?')) return refuse("a pattern is about the path: a query cannot be matched");
  const std::string normalized = TRY(normalize_path(text));
  if (normalized != text)
    return refuse("a pattern is written without escapes of letters, digits and -._~");
  PathPattern pattern;
  pattern.text_ = text;
  for (const std::string_view segment : split(text.substr(1), '/'))
    pattern.segments_.emplace_back(segment);
  if (pattern.segments_.back() == "**") {
    pattern.takes_rest_ = true;
    pattern.segments_.pop_back();
  }
  for (const std::string& segment : pattern.segments_)
    if (std::ranges::count(segment, '*') > 1)
      return refuse("a segment has at most one *, and ** stands only for the last segment");
  return pattern;
}

bool PathPattern::matches(std::string_view normalized_path) const {
  const auto parts = split(normalized_path.substr(1), '/');
  if (takes_rest_ ? parts.size() < segments_.size() : parts.size() != segments_.size())
    return false;
  for (std::size_t i = 0; i < segments_.size(); ++i)
    if (!matches_segment(segments_[i], parts[i])) return false;
  return true;
}

}  // namespace pons::egress
