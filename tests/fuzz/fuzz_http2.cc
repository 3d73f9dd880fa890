// The first byte picks the side, the second how the stream is cut; the rest is what a peer sends.
// The frames go to one end of a socket pair, and nobody reads the answers but a counter. Holds:
// what reaches a handler keeps the promises of a request's head, bodies stay within their limit,
// and the connection ends.

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/http/http2.h"
#include "pons/linux/loop.h"

namespace {

using namespace pons;
using namespace pons::http;

constexpr std::string_view kMagic = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::uint64_t kBodyMax = 50'000;

void check_fields(const Head& head) {
  for (const Field& field : head.fields) {
    CHECK(is_token(field.name) && is_field_value(field.value));
    CHECK(std::ranges::none_of(field.name, [](char c) { return c >= 'A' && c <= 'Z'; }));
    CHECK(field.name != "connection" && field.name != "transfer-encoding");
  }
}

void check_request(const RequestHead& head) {
  CHECK(is_token(head.method) && head.method != "CONNECT");
  CHECK(head.target.starts_with('/') || head.target == "*");
  CHECK(!head.host.empty() && is_field_value(head.host));
  CHECK(head.fields.size() <= 100);
  const auto host = head.find("host");
  CHECK(!host || equal_ignoring_case(*host, head.host));
  check_fields(head);
}

Task<> answer(Exchange& exchange) {
  check_request(exchange.request());
  const auto body = co_await exchange.read_whole_body(2 * kBodyMax);
  CHECK(!body || body->size() <= kBodyMax);
  CHECK(!body || exchange.request().framing != BodyFraming::kLength ||
        body->size() == exchange.request().content_length);
  if (!body) co_return;
  exchange.set_trailers(exchange.trailers());
  exchange.respond({.body = *body});
}

Task<> ask(Http2Client& client) {
  auto response = co_await client.send({.method = "POST", .body = "body"});
  if (!response) co_return;
  CHECK(response->status() >= 200 && response->status() <= 599);
  check_fields(response->head());
  std::uint64_t bytes = 0;
  for (;;) {
    const auto piece = co_await response->read_body();
    if (!piece) co_return;
    if (piece->empty()) break;
    bytes += piece->size();
  }
  CHECK(response->head().framing != BodyFraming::kLength ||
        bytes == response->head().content_length);
}

// Sends the stream in pieces and reads whatever comes, then leaves.
Task<> play(Transport& peer, std::string_view stream, std::size_t step) {
  char answers[4096];
  while (!stream.empty()) {
    std::string piece(stream.substr(0, step));
    iovec span = to_iovec(piece);
    if (peer.try_write({&span, 1}).state == IoOutcome::State::kFailed) co_return;
    stream.remove_prefix(piece.size());
    co_await peer.watch().loop().next_round();
    while (peer.try_read(answers).state == IoOutcome::State::kDone) {
    }
  }
  // A few rounds for what is under way.
  for (int i = 0; i < 8; ++i) {
    co_await peer.watch().loop().next_round();
    while (peer.try_read(answers).state == IoOutcome::State::kDone) {
    }
  }
}

Task<> converse(linux::Loop& loop, bool to_server, std::string_view stream, std::size_t step) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto ours = std::move(*create_plain_transport(loop, linux::UniqueFd(ends[0])));
  auto theirs = std::move(*create_plain_transport(loop, linux::UniqueFd(ends[1])));
  linux::TaskGroup tasks(loop);
  Http2Limits limits{.body_bytes = kBodyMax, .streams = 8, .leave_time = Duration(0)};
  if (to_server) {
    tasks.spawn(serve_http2(loop, std::move(ours), {}, limits, answer, "http"));
    const std::string whole = std::string(kMagic) + std::string(stream);
    co_await play(*theirs, whole, step);
    theirs.reset();
    // Within limits.leave_time and the time that last words may take.
    CHECK(co_await tasks.wait_until_empty(loop.now() + std::chrono::seconds(20)) ==
          linux::Wait::kReady);
  } else {
    Http2Client client(loop, std::move(ours), "a.test", "http", limits);
    tasks.spawn(ask(client));
    tasks.spawn(ask(client));
    co_await play(*theirs, stream, step);
    theirs.reset();
    CHECK(co_await tasks.wait_until_empty(loop.now() + std::chrono::seconds(20)) ==
          linux::Wait::kReady);
  }
}

Task<> run_once(linux::Loop& loop, bool to_server, std::string_view stream, std::size_t step) {
  co_await converse(loop, to_server, stream, step);
  loop.stop();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static linux::Loop& loop = *linux::Loop::create()->release();
  const std::string_view stream(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::size_t step = data[1] < 128 ? 64 * 1024 : 1 + (data[1] & 127);
  loop.spawn(run_once(loop, (data[0] & 1) == 0, stream, step));
  loop.run();
  return 0;
}
