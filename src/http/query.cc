#include "pons/http/query.h"

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::http {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_plain(c))
      encoded.push_back(c);
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

Result<std::optional<std::string>> find_query(std::string_view query, std::string_view name) {
  for (const std::string_view pair : split(query, '&')) {
    const auto equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    auto value = percent_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    if (!value)
      return make_error(ErrorCode::kInvalid, "read query",
                        fmt::format("{} is not percent-encoded text", name));
    return std::optional(*std::move(value));
  }
  return std::optional<std::string>();
}

}  // namespace pons::http
