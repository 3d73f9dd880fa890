#pragma once

#include <optional>
#include <string_view>

namespace pons::http {

// Views into the text that was parsed.
struct Authority {
  std::string_view host;  // a name, an IPv4 address, or an IPv6 address in its brackets
  std::string_view port;  // digits up to 65535, or empty when there is none
};

// "host", "host:port". Names are letters, digits, '-', '.' and '_', at most 255 bytes: what DNS can
// hold and a policy can compare. Percent-encoding, sub-delimiters, user information, an empty host
// and an empty port behind a colon are refused although RFC 3986 allows them.
std::optional<Authority> parse_authority(std::string_view text);

// What an absolute-form target ("http://host/path") is made of; nothing for any other scheme.
struct AbsoluteTarget {
  std::string_view authority;
  std::string_view path_and_query;  // may be empty, or begin with '?'
};
std::optional<AbsoluteTarget> split_absolute_target(std::string_view target);

}  // namespace pons::http
