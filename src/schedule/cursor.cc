#include "cursor.h"

#include <fmt/format.h>

#include "pons/base/base64.h"
#include "pons/base/id.h"
#include "pons/base/text.h"

namespace pons::schedule {

namespace {

constexpr std::size_t kTextBytesMax = 512;
constexpr std::uint64_t kMsMax = std::uint64_t{1} << 60;

std::string digest_of(std::string_view question) {
  constexpr std::size_t kDigits = 16;
  return sha256_hex(question).substr(0, kDigits);
}

}  // namespace

std::string write_cursor(const Cursor& cursor, std::string_view question) {
  return base64_encode(fmt::format("{}:{}:{}", digest_of(question), cursor.created_ms, cursor.id));
}

Result<Cursor> read_cursor(std::string_view text, std::string_view question) {
  const auto refuse = [](const char* why) {
    return make_error(ErrorCode::kInvalid, "read page", why);
  };
  if (text.size() > kTextBytesMax) return refuse("this is no page of a list");
  const auto inside = base64_decode(text);
  if (!inside) return refuse("this is no page of a list");
  const auto parts = split(*inside, ':');
  if (parts.size() != 3 || !is_id_text(parts[2])) return refuse("this is no page of a list");
  const auto created = parse_decimal(parts[1]);
  if (!created || *created > kMsMax) return refuse("this is no page of a list");
  if (parts[0] != digest_of(question))
    return refuse("the page belongs to a list with other filters; begin it anew without a page");
  return Cursor{.created_ms = static_cast<std::int64_t>(*created), .id = std::string(parts[2])};
}

}  // namespace pons::schedule
