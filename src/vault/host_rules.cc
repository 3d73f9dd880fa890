#include "host_rules.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/vault/shared_suffix.h"

namespace pons::vault {

namespace {

constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::string_view kOwnDomain = "pons.internal";
constexpr std::string_view kAnyLabel = "*.";

Error refused(std::string_view text, std::string_view why) {
  return make_error(ErrorCode::kInvalid, "read host", fmt::format("\"{}\" {}", text, why));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_label(std::string_view label) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-'; };
  return !label.empty() && label.size() <= kLabelBytesMax && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, allowed);
}

// Whatever ends in a number is an address to some reader: 10.1, 0x7f.1, 017700000001.
bool ends_in_number(std::string_view host) {
  const std::string_view last = host.substr(host.rfind('.') + 1);
  return std::ranges::all_of(last, is_digit) || last.starts_with("0x");
}

}  // namespace

Result<std::string> parse_host_pattern(std::string_view text) {
  if (text.empty() || text.size() > kHostBytesMax)
    return refused(text.substr(0, 64), "is not a host name of at most 253 characters");
  std::string pattern(text);
  std::ranges::transform(pattern, pattern.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
  const bool any_label = pattern.starts_with(kAnyLabel);
  const std::string host = any_label ? pattern.substr(kAnyLabel.size()) : pattern;
  const auto labels = split(host, '.');
  if (!std::ranges::all_of(labels, is_label))
    return refused(text,
                   "is not a host name: letters, digits, hyphens and dots, or *. in front of them "
                   "for one label");
  if (ends_in_number(host))
    return refused(text, "is an IP address; credentials are bound to names, which TLS proves");
  if (labels.size() < 2) return refused(text, "has one label only; name the host in full");
  if (host == kOwnDomain || host.ends_with(fmt::format(".{}", kOwnDomain)))
    return refused(text, "is a name of Pons itself");
  if (any_label && is_shared_suffix(host))
    return refused(text, "covers hosts of strangers; name the host in full");
  return pattern;
}

bool host_matches(std::string_view pattern, std::string_view host) {
  if (!pattern.starts_with(kAnyLabel)) return pattern == host;
  const std::size_t dot = host.find('.');
  return dot != std::string_view::npos && dot > 0 && host.substr(dot) == pattern.substr(1);
}

}  // namespace pons::vault
