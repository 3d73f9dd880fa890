#include "quote.h"

#include <fmt/format.h>

namespace pons::config {

namespace {

constexpr std::size_t kBytesShown = 60;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::string quote(std::string_view text) {
  std::string_view shown = text.substr(0, kBytesShown);
  while (shown.size() < text.size() && !shown.empty() && is_continuation(text[shown.size()]))
    shown.remove_suffix(1);
  std::string out = "\"";
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += shown[i];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && i + 1 < shown.size() &&
               static_cast<unsigned char>(shown[i + 1]) < 0xA0) {  // the C1 controls
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(shown[++i]));
    } else {
      out += shown[i];
    }
  }
  return out + (shown.size() < text.size() ? "…\"" : "\"");
}

}  // namespace pons::config
