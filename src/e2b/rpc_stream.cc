#include "rpc_stream.h"

#include <algorithm>

#include "connect.h"
#include "pons/base/text.h"
#include "pons/linux/loop.h"

namespace pons::e2b {

namespace {

constexpr std::uint64_t kKeepAliveSecondsDefault = 90;
constexpr std::size_t kTimeoutDigitsMax = 10;  // of the protocol

Duration requested_keep_alive(const http::RequestHead& head) {
  const auto seconds = parse_decimal(head.find("Keepalive-Ping-Interval").value_or(""));
  return std::chrono::seconds(
      std::clamp<std::uint64_t>(seconds.value_or(kKeepAliveSecondsDefault), 1, 3600));
}

}  // namespace

std::optional<Duration> requested_timeout(const http::RequestHead& head) {
  const auto text = head.find("Connect-Timeout-Ms");
  if (!text || text->size() > kTimeoutDigitsMax) return std::nullopt;
  const auto milliseconds = parse_decimal(*text);
  if (!milliseconds || *milliseconds == 0) return std::nullopt;
  return std::chrono::milliseconds(*milliseconds);
}

RpcStream::RpcStream(http::Exchange& exchange)
    : exchange_(exchange),
      timeout_(requested_timeout(exchange.request())),
      keep_alive_(requested_keep_alive(exchange.request())) {
  if (timeout_) deadline_ = exchange.loop().now() + *timeout_;
}

Task<Result<void>> RpcStream::write(std::string bytes) {
  if (!held_.empty()) bytes.insert(0, std::exchange(held_, {}));
  if (!std::exchange(begun_, true))
    co_return co_await exchange_.start({.content_type = kStreamType, .body = std::move(bytes)});
  co_return co_await exchange_.write(bytes);
}

Task<Result<void>> RpcStream::send(std::string_view message) {
  return write(make_envelope(Envelope::kMessage, message));
}

void RpcStream::hold(std::string_view message) {
  held_ += make_envelope(Envelope::kMessage, message);
}

Task<Result<void>> RpcStream::send_held() {
  if (held_.empty()) co_return {};
  co_return co_await write({});
}

// In one piece with the end of the body: each piece wakes the client up.
Task<> RpcStream::write_last(std::string bytes) {
  if (begun_) {
    bytes.insert(0, std::exchange(held_, {}));
    (void)co_await exchange_.finish(bytes);
  } else if (co_await write(std::move(bytes))) {
    (void)co_await exchange_.finish();
  }
}

Task<> RpcStream::end() {
  return write_last(make_envelope(Envelope::kEnd, "{}"));
}

Task<> RpcStream::end(Error error) {
  return write_last(end_of_stream(error));
}

}  // namespace pons::e2b
