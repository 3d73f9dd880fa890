#include "values.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::config {

namespace {

constexpr std::size_t kPathBytesMax = 1024;  // leaves room for what is created below it
constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kLabelBytesMax = 63;
constexpr std::size_t kCredentialNameBytesMax = 128;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The kernel's spelling of a numeric address, or nothing.
std::optional<std::string> canonical_address(int family, const std::string& text) {
  in6_addr bytes{};  // large enough for both families
  char canonical[INET6_ADDRSTRLEN];
  if (text.contains('\0') || inet_pton(family, text.c_str(), &bytes) != 1 ||
      inet_ntop(family, &bytes, canonical, sizeof canonical) == nullptr)
    return std::nullopt;
  return canonical;
}

bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= kLabelBytesMax && label.front() != '-' &&
         label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

}  // namespace

std::string ListenAddress::text() const {
  return address.contains(':') ? fmt::format("[{}]:{}", address, port)
                               : fmt::format("{}:{}", address, port);
}

static bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::optional<ListenAddress> listen_address_of(const GatewayConfig& gateway) {
  auto address = parse_listen_address(gateway.listen);
  return address ? std::optional(std::move(*address)) : std::nullopt;
}

std::optional<ListenAddress> listen_address_of(const MetricsConfig& metrics) {
  auto address = parse_listen_address(metrics.listen);
  return address ? std::optional(std::move(*address)) : std::nullopt;
}

Result<void> check_exposure(const Config& config) {
  if (config.tls.is_set() || config.plain_http == PlainHttpRule::kAnywhere ||
      is_loopback(config.listen.address))
    return {};
  return make_error(ErrorCode::kDenied, "check configuration",
                    fmt::format("keys and tokens would cross the network in the clear: listen is "
                                "{} and there is no TLS; set tls.certificate and tls.key, or, "
                                "behind a proxy of your own, plain_http: anywhere",
                                config.listen.text()));
}

Parsed<ListenAddress> parse_listen_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return std::unexpected("write the address and the port with a colon between them");
  const std::string port_text = text.substr(colon + 1);
  const auto port = parse_decimal(port_text);
  if (!port || *port > 65'535 || (port_text.size() > 1 && port_text[0] == '0'))
    return std::unexpected("the port is a number from 0 to 65535");
  const std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const auto address = bracketed ? canonical_address(AF_INET6, host.substr(1, host.size() - 2))
                                 : canonical_address(AF_INET, host);
  if (address) return ListenAddress{*address, static_cast<std::uint16_t>(*port)};
  if (!bracketed && host.contains(':')) return std::unexpected("put the IPv6 address in brackets");
  return std::unexpected("the address must be numeric, names are not looked up");
}

Parsed<std::string> parse_state_dir(const std::string& text) {
  if (!text.starts_with('/')) return std::unexpected("start the path with /");
  if (text.size() > kPathBytesMax)
    return std::unexpected(fmt::format("use at most {} bytes", kPathBytesMax));
  if (std::ranges::any_of(text, [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }))
    return std::unexpected("remove the control characters");
  std::string path;
  for (const std::string_view part : split(text, '/')) {
    if (part.empty()) continue;
    if (part == "." || part == "..")
      return std::unexpected("write the path without . and .. parts");
    path.append("/").append(part);
  }
  if (path.empty()) return std::unexpected("name a directory below /");
  return path;
}

Parsed<std::string> parse_file_path(const std::string& text) {
  return text.empty() ? text : parse_state_dir(text);
}

Parsed<std::string> parse_host_name(const std::string& text) {
  if (text.contains("://")) return std::unexpected("leave out the scheme, name only the host");
  if (text.starts_with("*."))
    return std::unexpected("wildcards are not supported in this release, name one host");
  if (text.contains('/')) return std::unexpected("leave out the path, name only the host");
  if (text.starts_with('[') || std::ranges::count(text, ':') > 1)
    return std::unexpected("an address is not allowed, name the host");
  if (text.contains(':')) return std::unexpected("leave out the port, name only the host");
  if (std::ranges::any_of(text, is_upper)) return std::unexpected("write it in lower case");
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) > 0x7E; }))
    return std::unexpected("write international names in their xn-- form");
  if (text.size() > kHostBytesMax)
    return std::unexpected(fmt::format("use at most {} characters", kHostBytesMax));
  if (text.ends_with('.')) return std::unexpected("leave out the dot at the end");
  const auto labels = split(text, '.');
  if (!std::ranges::all_of(labels, is_label))
    return std::unexpected(
        "each part between dots has 1 to 63 letters, digits and hyphens, no hyphen at its ends");
  if (labels.size() < 2)
    return std::unexpected(
        "a name without a dot means something else on each machine, name a full host");
  // A last part that begins with a digit is how clients recognise an IPv4 address, also in its
  // octal and hexadecimal spellings.
  if (is_digit(labels.back().front()))
    return std::unexpected("an address is not allowed, name the host");
  return text;
}

Parsed<std::string> parse_domain(const std::string& text) {
  if (text.empty()) return text;
  const auto colon = text.find(':');
  auto host = parse_host_name(text.substr(0, colon));
  if (!host || colon == std::string::npos) return host;
  const auto port = parse_decimal(std::string_view(text).substr(colon + 1));
  if (!port || *port == 0 || *port > 65'535) return std::unexpected("a port is 1 to 65535");
  return text;
}

// Compared letter by letter with what a browser says, which says each in one way only.
Parsed<std::string> parse_origins(const std::string& text) {
  constexpr std::size_t kOriginsMax = 32;
  if (text.empty()) return text;
  const auto origins = split(text, ' ');
  if (origins.size() > kOriginsMax)
    return std::unexpected(fmt::format("name at most {} origins", kOriginsMax));
  for (const std::string_view origin : origins) {
    const bool secure = origin.starts_with("https://");
    if (!secure && !origin.starts_with("http://"))
      return std::unexpected("an origin begins with https:// or http://; there is no wildcard");
    std::string_view host = origin.substr(secure ? 8 : 7);
    if (host.contains('/')) return std::unexpected("leave out the path and the slash at the end");
    if (std::ranges::any_of(host, is_upper)) return std::unexpected("write it in lower case");
    // Behind the last colon stands a port, unless that colon is one of an address in brackets.
    const std::size_t colon = host.rfind(':');
    if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
      const auto port = parse_decimal(host.substr(colon + 1));
      if (!port || *port == 0 || *port > 65'535) return std::unexpected("a port is 1 to 65535");
      if (*port == (secure ? 443 : 80))
        return std::unexpected("leave out the usual port: browsers do so too");
      host = host.substr(0, colon);
    }
    const bool bracketed = host.starts_with('[') && host.ends_with(']');
    const auto labels = split(host, '.');
    if (host.empty() || (!bracketed && !std::ranges::all_of(labels, is_label)))
      return std::unexpected("an origin is a scheme, a host, and a port if need be");
  }
  return text;
}

Parsed<std::string> parse_optional_listen_address(const std::string& text) {
  if (text.empty()) return text;
  auto address = parse_listen_address(text);
  if (!address) return std::unexpected(std::move(address).error());
  return address->text();
}

Parsed<std::string> parse_optional_loopback_address(const std::string& text) {
  if (text.empty()) return text;
  auto address = parse_listen_address(text);
  if (!address) return std::unexpected(std::move(address).error());
  if (!is_loopback(address->address))
    return std::unexpected("nobody is asked for a key there: it must be a loopback address");
  return address->text();
}

Parsed<std::string> parse_optional_url(const std::string& text) {
  if (text.empty()) return text;
  const std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return std::unexpected("it must begin with https:// or http://");
  const auto is_plain = [](char c) {
    return c > ' ' && c < 0x7F && c != '?' && c != '#' && c != '@' && c != '"' && c != '\\';
  };
  if (text.size() == scheme || text[scheme] == '/' || !std::ranges::all_of(text, is_plain))
    return std::unexpected(
        "write a host, and a port and a path if need be; no user, no query, no fragment");
  return text;
}

// Whoever connects looks closer; a password must not get even that far.
Parsed<std::string> parse_optional_database(const std::string& text) {
  if (text.empty()) return text;
  if (!text.starts_with("postgres://") && !text.starts_with("postgresql://"))
    return std::unexpected("it must begin with postgres://");
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; }))
    return std::unexpected("use visible ASCII characters only, others as %XX");
  return text;
}

Parsed<std::string> parse_optional_variable(const std::string& text) {
  const auto goes_on = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (text.size() > 128 || !std::ranges::all_of(text, goes_on) ||
      (!text.empty() && text.front() >= '0' && text.front() <= '9'))
    return std::unexpected("use letters, digits and underscores, and no digit in front");
  return text;
}

bool is_model_name(std::string_view text) {
  constexpr std::size_t kNameBytesMax = 128;
  constexpr std::string_view kSigns = "-._:/";
  return !text.empty() && text.size() <= kNameBytesMax && std::ranges::all_of(text, [&](char c) {
    return is_lower(c) || is_upper(c) || is_digit(c) || kSigns.find(c) != kSigns.npos;
  });
}

bool is_credential_name(std::string_view text) {
  return !text.empty() && text.size() <= kCredentialNameBytesMax && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_upper(c) || is_digit(c) || c == '_'; });
}

bool is_environment_name(std::string_view text) {
  constexpr std::size_t kNameBytesMax = 64;
  return !text.empty() && text.size() <= kNameBytesMax && is_lower(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

Parsed<std::string> parse_name(const std::string& text) {
  if (text.empty()) return std::unexpected("must not be empty");
  return parse_optional_name(text);
}

Parsed<std::string> parse_optional_name(const std::string& text) {
  if (!text.empty() && !is_environment_name(text))
    return std::unexpected("use lower-case letters, digits and hyphens, and a letter in front");
  return text;
}

std::string state_dir_for(uid_t user, const std::string& xdg_state_home, const std::string& home) {
  if (user != 0) {
    if (auto path = parse_state_dir(xdg_state_home)) return *path + "/pons";
    if (auto path = parse_state_dir(home)) return *path + "/.local/state/pons";
  }
  return "/var/lib/pons";
}

std::string default_state_dir() {
  return state_dir_for(geteuid(), read_environment("XDG_STATE_HOME").value_or(""),
                       read_environment("HOME").value_or(""));
}

}  // namespace pons::config
