#include "pons/memory/path.h"

#include <algorithm>

#include <fmt/format.h>

#include "nfc.h"
#include "pons/base/text.h"

namespace pons::memory {

namespace {

Error refuse(std::string_view why) {
  return make_error(ErrorCode::kInvalid, "check path", fmt::format("the path {}", why));
}

Result<void> check_characters(std::string_view path) {
  if (!is_valid_utf8(path)) return refuse("is no UTF-8");
  const std::u32string codes = decode_utf8(path);
  if (std::ranges::any_of(codes, is_unprintable))
    return refuse("holds a control, format or line separator character");
  if (!is_nfc(codes)) return refuse("is not in Unicode normal form C (NFC); normalise it");
  return {};
}

}  // namespace

Result<void> check_path(std::string_view path) {
  if (!path.starts_with('/')) return refuse("must start with \"/\"");
  if (path.size() > kPathBytesMax)
    return refuse(fmt::format("is longer than {} bytes", kPathBytesMax));
  const auto segments = split(path.substr(1), '/');
  if (segments.size() > kSegmentsMax)
    return refuse(fmt::format("has more than {} segments", kSegmentsMax));
  for (const std::string_view segment : segments)
    if (segment.empty() || segment == "." || segment == "..")
      return refuse("has a segment that is empty, \".\" or \"..\"");
  return check_characters(path);
}

Result<void> check_prefix(std::string_view prefix) {
  if (prefix == "/") return {};
  if (!prefix.starts_with('/') || !prefix.ends_with('/'))
    return make_error(ErrorCode::kInvalid, "check path",
                      "a path prefix must start and end with \"/\"");
  return check_path(prefix.substr(0, prefix.size() - 1));
}

std::vector<std::string> folders_and_itself(std::string_view path) {
  std::vector<std::string> all;
  for (std::size_t at = path.find('/', 1); at != std::string_view::npos;
       at = path.find('/', at + 1))
    all.emplace_back(path.substr(0, at));
  all.emplace_back(path);
  return all;
}

bool overlap(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  return other.starts_with(one) && (other.size() == one.size() || other[one.size()] == '/');
}

// '0' is the character behind '/'.
PathInterval below_folder(std::string_view folder) {
  return {.first = fmt::format("{}/", folder), .end = fmt::format("{}0", folder)};
}

// No path holds a control character: nothing stands between the two.
std::string after_path(std::string_view path) {
  return fmt::format("{}\x01", path);
}

std::string mount_slug(std::string_view store_name) {
  std::string slug;
  for (const char c : store_name) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9'))
      slug += lower;
    else if (!slug.ends_with('-'))
      slug += '-';
  }
  return slug;
}

}  // namespace pons::memory
