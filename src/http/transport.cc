#include "pons/http/transport.h"

#include <sys/socket.h>

#include "advance.h"
#include "socket_options.h"

namespace pons::http {

namespace {

using State = IoOutcome::State;

constexpr Duration kLingerTime = std::chrono::seconds(2);
// A client in the middle of an upload fills all buffers between us before it sees the answer.
constexpr std::size_t kLingerBytesMax = 32 * 1024 * 1024;
constexpr std::size_t kLingerTurnBytes = 1024 * 1024;

// Every call says MSG_DONTWAIT: whoever handed the socket over may still hold a copy and switch it
// to blocking.
class PlainTransport final : public Transport {
 public:
  PlainTransport(linux::UniqueFd socket, linux::Watch watch)
      : socket_(std::move(socket)), watch_(std::move(watch)) {}

  IoOutcome try_read(std::span<char> into) override {
    for (;;) {
      const ssize_t got = recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0) return {.bytes = static_cast<std::size_t>(got)};
      if (got == 0) return {.state = State::kEnd};
      if (errno == EAGAIN) return {.state = State::kWantRead};
      if (errno != EINTR) return {.state = State::kFailed, .os_error = errno};
    }
  }

  IoOutcome try_write(std::span<const iovec> from) override {
    // sendmsg and not writev: a peer that left must not raise SIGPIPE.
    msghdr message{.msg_iov = const_cast<iovec*>(from.data()), .msg_iovlen = from.size()};
    for (;;) {
      const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) return {.bytes = static_cast<std::size_t>(sent)};
      if (errno == EAGAIN) return {.state = State::kWantWrite};
      if (errno != EINTR) return {.state = State::kFailed, .os_error = errno};
    }
  }

  bool has_buffered_input() const override { return false; }
  void shut_down_writing() override { shutdown(socket_.get(), SHUT_WR); }
  IoOutcome try_shut_down_writing() override {
    shut_down_writing();
    return {};
  }
  linux::Watch& watch() override { return watch_; }
  int fd() const override { return socket_.get(); }

 private:
  linux::UniqueFd socket_;
  linux::Watch watch_;  // after the socket: it must go first
};

}  // namespace

Result<std::unique_ptr<Transport>> create_plain_transport(linux::Loop& loop,
                                                          linux::UniqueFd socket) {
  TRY_VOID(linux::set_nonblocking(socket.get()));
  set_tcp_options(socket.get());
  auto watch = TRY(linux::Watch::create(loop, socket.get()));
  return std::make_unique<PlainTransport>(std::move(socket), std::move(watch));
}

Task<linux::Wait> wait_for(Transport& transport, IoOutcome::State wanted, TimePoint deadline) {
  if (wanted == State::kWantWrite) co_return co_await transport.watch().writable(deadline);
  co_return co_await transport.watch().readable(deadline);
}

Task<Result<std::size_t>> read_some(Transport& transport, std::span<char> into,
                                    TimePoint deadline) {
  for (;;) {
    const IoOutcome outcome = transport.try_read(into);
    if (outcome.state == State::kDone) co_return outcome.bytes;
    if (outcome.state == State::kEnd) co_return std::size_t{0};
    if (outcome.state == State::kFailed) co_return os_error("read from peer", {}, outcome.os_error);
    if (co_await wait_for(transport, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "read from peer",
                           "nothing came before the deadline");
  }
}

Task<Result<void>> finish_writing(Transport& transport, Duration stall_max) {
  const TimePoint deadline = transport.watch().loop().now() + stall_max;
  for (;;) {
    const IoOutcome outcome = transport.try_shut_down_writing();
    if (outcome.state == State::kDone) co_return {};
    if (outcome.state != State::kWantWrite)
      co_return os_error("half-close", {}, outcome.os_error != 0 ? outcome.os_error : EPIPE);
    if (co_await wait_for(transport, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "half-close", "the peer takes no bytes");
  }
}

Task<> close_gently(Transport& transport, std::span<char> scratch) {
  if (!co_await finish_writing(transport, kLingerTime)) co_return;
  const TimePoint deadline = transport.watch().loop().now() + kLingerTime;
  std::size_t dropped = 0;
  std::size_t turn = 0;
  while (dropped < kLingerBytesMax) {
    const auto got = co_await read_some(transport, scratch, deadline);
    if (!got || *got == 0) co_return;
    dropped += *got;
    if ((turn += *got) < kLingerTurnBytes) continue;
    turn = 0;
    co_await transport.watch().loop().next_round();
  }
}

Task<Result<void>> write_all(Transport& transport, std::span<iovec> from, Duration stall_max) {
  for (;;) {
    from = skip_empty(from);
    if (from.empty()) co_return {};
    const IoOutcome outcome = transport.try_write(from);
    if (outcome.state == State::kDone) {
      from = advance(from, outcome.bytes);
      continue;
    }
    if (outcome.state == State::kEnd || outcome.state == State::kFailed)
      co_return os_error("write to peer", {}, outcome.os_error != 0 ? outcome.os_error : EPIPE);
    const TimePoint deadline = transport.watch().loop().now() + stall_max;
    if (co_await wait_for(transport, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "write to peer", "the peer takes no bytes");
  }
}

}  // namespace pons::http
