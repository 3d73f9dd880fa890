#include "query.h"

#include "pons/base/text.h"

namespace pons::e2b {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::optional<std::string> form_decode(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3 || digit_of(text[i + 1]) < 0 || digit_of(text[i + 2]) < 0)
      return std::nullopt;
    bytes += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
    i += 2;
  }
  return bytes;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  for (const std::string_view pair : split(query, '&')) {
    const std::size_t equals = pair.find('=');
    if (form_decode(pair.substr(0, equals)) != name) continue;
    return equals == std::string_view::npos ? std::string() : form_decode(pair.substr(equals + 1));
  }
  return std::nullopt;
}

}  // namespace pons::e2b
