#include "sniff.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/netfilter_ipv4.h>  // behind libc's, with which it shares names

#include <algorithm>
#include <array>

namespace pons::egress {

namespace {

constexpr int kIp6OriginalDestination = 80;  // IP6T_SO_ORIGINAL_DST: its header clashes with libc's
constexpr unsigned char kTlsHandshake = 22;
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n";
constexpr std::size_t kMethodBytesMax = 24;

// Letters and then a space, as every request begins. Nothing while it cannot be told.
std::optional<bool> begins_like_http(std::string_view bytes) {
  const auto end =
      std::ranges::find_if_not(bytes, [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; });
  const auto length = static_cast<std::size_t>(end - bytes.begin());
  if (end == bytes.end()) return length > kMethodBytesMax ? std::optional(false) : std::nullopt;
  return length > 0 && length <= kMethodBytesMax && *end == ' ';
}

std::optional<Greeting> read_greeting(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (static_cast<unsigned char>(bytes.front()) == kTlsHandshake) {
    auto outcome = http::parse_client_hello(bytes);
    if (std::holds_alternative<http::ClientHelloNeedsMore>(outcome)) return std::nullopt;
    if (auto* hello = std::get_if<http::ClientHello>(&outcome)) return std::move(*hello);
    return UnknownProtocol{};
  }
  if (kHttp2Preface.starts_with(bytes.substr(0, kHttp2Preface.size()))) {
    if (bytes.size() >= kHttp2Preface.size()) return PlainHttp2{};
    if (bytes.size() > 3) return std::nullopt;
  }
  const auto http = begins_like_http(bytes);
  if (!http) return std::nullopt;
  if (*http) return PlainHttp{};
  return UnknownProtocol{};
}

}  // namespace

Result<OriginalDestination> original_destination(int socket) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&local), &size) != 0)
    return os_error("read destination");
  auto address = names::IpAddress::from_socket(reinterpret_cast<const sockaddr&>(local));
  // A socket for both families shows an IPv4 peer as a wrapped address.
  const bool is_v4 = address && address->embedded().is_v4();
  sockaddr_storage original{};
  size = sizeof original;
  if (getsockopt(socket, is_v4 ? SOL_IP : SOL_IPV6,
                 is_v4 ? SO_ORIGINAL_DST : kIp6OriginalDestination, &original, &size) != 0)
    return os_error("read destination");
  address = names::IpAddress::from_socket(reinterpret_cast<const sockaddr&>(original));
  if (!address) return make_error(ErrorCode::kInternal, "read destination", "of no known family");
  // sin_port and sin6_port stand at the same place.
  return OriginalDestination{*address,
                             ntohs(reinterpret_cast<const sockaddr_in&>(original).sin_port)};
}

Task<Result<Greeting>> sniff(linux::Watch& watch, int socket, TimePoint deadline) {
  std::array<char, http::kClientHelloBytesMax> buffer;
  for (;;) {
    const ssize_t got = recv(socket, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got == 0) co_return make_error(ErrorCode::kUnavailable, "read greeting", "the client left");
    if (got < 0 && errno != EAGAIN && errno != EINTR) co_return os_error("read greeting");
    if (got > 0) {
      auto greeting = read_greeting({buffer.data(), static_cast<std::size_t>(got)});
      if (greeting) co_return std::move(*greeting);
      if (static_cast<std::size_t>(got) == buffer.size()) co_return Greeting(UnknownProtocol{});
    }
    if (co_await watch.readable(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "read greeting", "the client says nothing");
    // A client that closed after a few bytes would wake this up without end.
    if (watch.hung_up() && got > 0)
      co_return make_error(ErrorCode::kUnavailable, "read greeting", "the client left");
  }
}

}  // namespace pons::egress
