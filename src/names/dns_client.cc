#include "dns_client.h"

#include <sys/socket.h>

#include <array>

#include "pons/base/id.h"
#include "pons/http/client.h"
#include "pons/linux/fd.h"

namespace pons::names {
namespace {

using linux::UniqueFd;

constexpr const char* kStep = "ask a name server";
constexpr std::size_t kStrangeDatagramsMax = 64;
constexpr Duration kWriteStall = std::chrono::seconds(5);

std::uint16_t random_id() {
  std::uint16_t id = 0;
  random_bytes(&id, sizeof id);
  return id;
}

struct Asked {
  std::uint16_t id;
  DnsQuestion question;
};

bool answers(const DnsResponse& response, const Asked& asked) {
  return response.id == asked.id && response.question == asked.question;
}

Error timed_out() {
  return make_error(ErrorCode::kTimeout, kStep, "it did not answer in time");
}

// Connected: the kernel drops what comes from anywhere else, and tells when nobody listens. The
// kernel picks the port at random.
Result<UniqueFd> open_datagram_socket(const Nameserver& server) {
  sockaddr_storage address;
  const socklen_t size = server.address.fill_socket(address, server.port);
  UniqueFd socket(::socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return os_error(kStep);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return os_error(kStep);
  return socket;
}

Task<Result<DnsResponse>> ask_by_datagram(linux::Loop& loop, const Nameserver& server,
                                          std::string_view query, const Asked& asked,
                                          TimePoint deadline) {
  CO_TRY(const UniqueFd socket, open_datagram_socket(server));
  CO_TRY(auto watch, linux::Watch::create(loop, socket.get()));
  if (send(socket.get(), query.data(), query.size(), MSG_NOSIGNAL) < 0) co_return os_error(kStep);
  std::array<char, kDnsUdpBytesMax + 1> buffer;
  for (std::size_t strange = 0; strange < kStrangeDatagramsMax;) {
    const ssize_t size = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno != EAGAIN && errno != EINTR) co_return os_error(kStep);
    if (size < 0) {
      if (co_await watch.readable(deadline) == linux::Wait::kTimeout) co_return timed_out();
      continue;
    }
    auto response = parse_dns_response({buffer.data(), static_cast<std::size_t>(size)});
    if (response && answers(*response, asked)) co_return std::move(*response);
    ++strange;
  }
  co_return make_error(ErrorCode::kUnavailable, kStep,
                       "somebody floods us with answers to other questions");
}

Task<Result<void>> read_exactly(http::Transport& transport, std::span<char> into,
                                TimePoint deadline) {
  while (!into.empty()) {
    CO_TRY(const std::size_t size, co_await http::read_some(transport, into, deadline));
    if (size == 0) co_return make_error(ErrorCode::kUnavailable, kStep, "it closed the connection");
    into = into.subspan(size);
  }
  co_return Result<void>();
}

Task<Result<DnsResponse>> ask_by_stream(linux::Loop& loop, const Nameserver& server,
                                        std::string_view query, const Asked& asked,
                                        TimePoint deadline) {
  const auto connector = http::tcp_connector(loop, server.address.to_text(), server.port);
  CO_TRY(const auto transport, co_await connector(deadline));
  const std::string framed = frame_for_tcp(query);
  std::array pieces = {http::to_iovec(framed)};
  CO_TRY_VOID(co_await http::write_all(*transport, pieces, kWriteStall));
  std::array<char, 2> prefix;
  CO_TRY_VOID(co_await read_exactly(*transport, prefix, deadline));
  std::string message(static_cast<std::size_t>(static_cast<unsigned char>(prefix[0])) << 8 |
                          static_cast<unsigned char>(prefix[1]),
                      '\0');
  CO_TRY_VOID(co_await read_exactly(*transport, message, deadline));
  CO_TRY(auto response, parse_dns_response(message));
  if (!answers(response, asked) || response.truncated)
    co_return make_error(ErrorCode::kUnavailable, kStep, "it answered another question");
  co_return response;
}

}  // namespace

Task<Result<DnsResponse>> ask_nameserver(linux::Loop& loop, Nameserver server, HostName name,
                                         std::uint16_t type, TimePoint deadline) {
  const Asked asked{
      .id = random_id(),
      .question = {.name = name.text(), .type = type, .question_class = kDnsInternet}};
  const std::string query = write_dns_query(asked.id, name, type);
  CO_TRY(auto response, co_await ask_by_datagram(loop, server, query, asked, deadline));
  if (!response.truncated) co_return response;
  co_return co_await ask_by_stream(loop, server, query, asked, deadline);
}

}  // namespace pons::names
