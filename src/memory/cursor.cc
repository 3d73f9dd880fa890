#include "cursor.h"

#include <algorithm>

#include "pons/base/base64.h"
#include "pons/base/text.h"

namespace pons::memory {

namespace {

constexpr std::size_t kCursorBytesMax = 4096;
constexpr std::size_t kDigestBytes = 12;

std::string digest_of(std::string_view list) {
  return sha256_hex(list).substr(0, kDigestBytes);
}

}  // namespace

// In the alphabet that needs no escapes in a URL.
std::string write_cursor(std::string_view list, std::string_view position) {
  std::string text = base64_encode(digest_of(list) + std::string(position));
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  text.erase(std::ranges::find(text, '='), text.end());
  return text;
}

Result<std::string> read_cursor(std::string_view list, std::string_view cursor) {
  const auto refuse = [] {
    return make_error(ErrorCode::kInvalid, "read page",
                      "page is no cursor of this list with these filters; start without one");
  };
  if (cursor.size() > kCursorBytesMax) return refuse();
  std::string text(cursor);
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  text.append((4 - text.size() % 4) % 4, '=');
  const auto decoded = base64_decode(text);
  if (!decoded || !decoded->starts_with(digest_of(list))) return refuse();
  std::string position = decoded->substr(kDigestBytes);
  if (!is_valid_utf8(position) || position.find('\0') != std::string::npos) return refuse();
  return position;
}

}  // namespace pons::memory
