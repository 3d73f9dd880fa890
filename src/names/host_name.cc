#include "pons/names/host_name.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::names {
namespace {

constexpr std::size_t kNameBytesMax = 253;
constexpr std::size_t kLabelBytesMax = 63;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter_or_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z');
}

Error refuse(const char* why) {
  return make_error(ErrorCode::kInvalid, "read host name", why);
}

Result<void> check_label(std::string_view label) {
  if (label.empty()) return refuse("a label is empty: two dots, or a dot at the start");
  if (label.size() > kLabelBytesMax) return refuse("a label is longer than 63 bytes");
  if (label.starts_with('-') || label.ends_with('-'))
    return refuse("a label begins or ends with a hyphen");
  for (std::size_t i = 0; i < label.size(); ++i) {
    const char c = label[i];
    if (is_letter_or_digit(c) || c == '-' || (c == '_' && i == 0)) continue;
    if (static_cast<unsigned char>(c) >= 0x80)
      return refuse("not ASCII: write an international name in its xn-- form");
    if (c == '_') return refuse("an underscore is allowed only as the first byte of a label");
    if (c == ':' || c == '[' || c == '%') return refuse("an address or a port is no host name");
    return refuse("a byte that no host name has: letters, digits and hyphens only");
  }
  return {};
}

// How resolvers and URL parsers decide that something is an IPv4 address in one of its many
// spellings: the last label is a number, decimal, octal or hexadecimal.
bool is_number(std::string_view label) {
  if (label.starts_with("0x")) {
    const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
    return std::ranges::all_of(label.substr(2), is_hex);
  }
  return std::ranges::all_of(label, is_digit);
}

}  // namespace

Result<HostName> HostName::parse(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty()) return refuse("empty");
  if (text.size() > kNameBytesMax) return refuse("longer than 253 bytes");
  std::string name(text);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto labels = split(name, '.');
  for (const std::string_view label : labels) TRY_VOID(check_label(label));
  if (is_number(labels.back())) return refuse("ends in a number: that is an address, not a name");
  return HostName(std::move(name));
}

std::string_view HostName::parent() const {
  const std::size_t dot = text_.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(text_).substr(dot + 1);
}

bool HostName::is_below(std::string_view suffix) const {
  return text_.size() > suffix.size() + 1 && text_.ends_with(suffix) &&
         text_[text_.size() - suffix.size() - 1] == '.';
}

}  // namespace pons::names
