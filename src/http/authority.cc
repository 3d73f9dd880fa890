#include "authority.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

#include "octets.h"
#include "pons/base/text.h"

namespace pons::http {
namespace {

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxPortDigits = 5;

bool is_ipv6(std::string_view text) {
  char terminated[INET6_ADDRSTRLEN];  // inet_pton wants a C string
  if (text.size() >= sizeof terminated) return false;
  *std::ranges::copy(text, terminated).out = '\0';
  in6_addr address;
  return inet_pton(AF_INET6, terminated, &address) == 1;
}

bool is_port(std::string_view text) {
  if (text.size() > kMaxPortDigits) return false;
  const auto port = parse_decimal(text);
  return port && *port <= 65535;
}

// How many bytes at the start are the host; 0 when they are none.
std::size_t host_bytes(std::string_view text) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos || !is_ipv6(text.substr(1, close - 1))) return 0;
    return close + 1;
  }
  const char* const end = skip_octets(text.data(), text.data() + text.size(), kHostOctet);
  const auto bytes = static_cast<std::size_t>(end - text.data());
  return bytes <= kMaxHostBytes ? bytes : 0;
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  const auto bytes = host_bytes(text);
  if (bytes == 0) return std::nullopt;
  const auto host = text.substr(0, bytes);
  if (bytes == text.size()) return Authority{.host = host, .port = {}};
  const auto port = text.substr(bytes + 1);
  if (text[bytes] != ':' || !is_port(port)) return std::nullopt;
  return Authority{.host = host, .port = port};
}

std::optional<AbsoluteTarget> split_absolute_target(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const auto rest = target.substr(scheme.size());
    const auto end = std::min(rest.find_first_of("/?"), rest.size());
    return AbsoluteTarget{.authority = rest.substr(0, end), .path_and_query = rest.substr(end)};
  }
  return std::nullopt;
}

}  // namespace pons::http
