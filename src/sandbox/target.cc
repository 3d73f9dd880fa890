#include "target.h"

#include <utility>

namespace pons::sandbox {

namespace {

// Unreserved characters and those of `also` stand for themselves, every other byte is %XX.
std::string percent_encode(std::string_view bytes, std::string_view also) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : bytes) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || also.contains(c);
    if (plain) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

}  // namespace

Target::Target(std::initializer_list<std::string_view> segments) {
  for (const std::string_view segment : segments) text_ += "/" + percent_encode(segment, ":@");
}

Target& Target::with(std::string_view name, std::string_view value) & {
  text_ += std::exchange(has_query_, true) ? '&' : '?';
  text_ += name;
  text_ += '=';
  text_ += percent_encode(value, "/");
  return *this;
}

}  // namespace pons::sandbox
