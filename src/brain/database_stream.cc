#include "database_stream.h"

#include <sys/socket.h>

#include "pons/http/client.h"
#include "pons/http/error_status.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/channel.h"

namespace pons::brain {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 << 10;

Task<Result<std::unique_ptr<http::Transport>>> dial_with(linux::Loop& loop, int channel,
                                                         int stream) {
  const int along[] = {stream};
  CO_TRY(auto socket, roles::dial(channel, along));
  co_return http::create_plain_transport(loop, std::move(socket));
}

Task<Result<std::unique_ptr<http::Transport>>> open(linux::Loop& loop, int channel,
                                                    TimePoint deadline) {
  CO_TRY(auto pair, linux::create_socket_pair(SOCK_STREAM));
  const auto connect = [&loop, channel, &pair](TimePoint) {
    return dial_with(loop, channel, pair.second.get());
  };
  http::Client client(loop, connect, "gateway", {.first_byte_time = deadline - loop.now()});
  CO_TRY(auto response, co_await client.send({.method = "POST", .target = "/database"}));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("open database", response.status(), body);
  co_return http::create_plain_transport(loop, std::move(pair.first));
}

}  // namespace

store::OpenStream open_through_gateway(linux::Loop& loop, int channel) {
  return [&loop, channel](TimePoint deadline) { return open(loop, channel, deadline); };
}

}  // namespace pons::brain
