#include "server_url.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/http/tls.h"

namespace pons::cli {

namespace {

Error wrong(std::string_view text) {
  return make_error(
      ErrorCode::kInvalid, "read URL",
      fmt::format("\"{}\" is no URL of a Pons: write http://HOST:PORT/mcp, or https", text));
}

// The first address of it, in numbers.
Result<std::string> look_up(const std::string& host) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), nullptr, &wish, &found); failed != 0)
    return make_error(ErrorCode::kNotFound, "look up server",
                      fmt::format("{}: {}", host, gai_strerror(failed)));
  char text[NI_MAXHOST] = "";
  const int named =
      getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  if (named != 0) return make_error(ErrorCode::kNotFound, "look up server", gai_strerror(named));
  return std::string(text);
}

}  // namespace

Result<ServerUrl> read_server_url(std::string_view text, std::string_view usual_path) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kEncrypted = "https://";
  constexpr std::uint64_t kPortMax = 65'535;
  ServerUrl url{.is_encrypted = text.starts_with(kEncrypted)};
  if (!url.is_encrypted && !text.starts_with(kPlain)) return wrong(text);
  const std::string_view rest = text.substr(url.is_encrypted ? kEncrypted.size() : kPlain.size());
  for (const char c : rest)
    if (c <= ' ' || c > '~' || c == '@' || c == '#' || c == '?') return wrong(text);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  url.authority = rest.substr(0, slash);
  url.path = rest.substr(slash);
  if (url.path.empty() || url.path == "/") url.path = usual_path;
  const bool is_bracketed = url.authority.starts_with('[');
  const std::size_t end = is_bracketed ? url.authority.find(']') : url.authority.find(':');
  if (is_bracketed && end == std::string::npos) return wrong(text);
  url.host = is_bracketed ? url.authority.substr(1, end - 1) : url.authority.substr(0, end);
  const std::size_t colon = is_bracketed ? end + 1 : std::min(end, url.authority.size());
  url.port = url.is_encrypted ? 443 : 80;
  if (colon < url.authority.size()) {
    const auto port = url.authority[colon] == ':'
                          ? parse_decimal(std::string_view(url.authority).substr(colon + 1))
                          : std::nullopt;
    if (!port || *port == 0 || *port > kPortMax) return wrong(text);
    url.port = static_cast<std::uint16_t>(*port);
  }
  if (url.host.empty()) return wrong(text);
  return url;
}

Result<http::Connector> connector_to(linux::Loop& loop, const ServerUrl& url) {
  std::string address = TRY(look_up(url.host));
  if (!url.is_encrypted) return http::tcp_connector(loop, std::move(address), url.port);
  auto context = TRY(http::TlsContext::create_client());
  return http::tls_connector(loop, std::move(address), url.port, url.host, std::move(context));
}

}  // namespace pons::cli
