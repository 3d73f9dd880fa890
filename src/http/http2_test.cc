#include "pons/http/http2.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "http2_fixture.h"
#include "pons/http/upstream.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): the fixture's run() and
// handle_with() and each request keep their lambdas for as long as the coroutines run.

namespace pons::http {
namespace {

using ::testing::HasSubstr;

// Bytes that differ everywhere, so that a piece that is lost or moved shows.
std::string make_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 1;
  for (char& c : bytes) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

BodySource pieces_of(const std::string& body, std::size_t size) {
  return [&body, size, at = std::size_t{0}]() mutable -> Task<Result<std::string_view>> {
    const auto piece = std::string_view(body).substr(at, size);
    at += piece.size();
    co_return piece;
  };
}

Task<> echo_stream(Exchange& exchange) {
  (void)co_await exchange.start({.content_type = "application/octet-stream"});
  for (;;) {
    const auto piece = co_await exchange.read_body();
    if (!piece) co_return exchange.abort();
    if (piece->empty()) break;
    if (!co_await exchange.write(*piece)) co_return;
  }
  exchange.set_trailers(exchange.trailers());
  (void)co_await exchange.finish();
}

TEST_F(Http2Test, RequestReachesTheHandlerAsItWasSent) {
  handle_with([](Exchange& exchange) -> Task<> {
    const RequestHead& head = exchange.request();
    std::string seen =
        fmt::format("{} {} {} {}|", head.method, head.target, head.host, exchange.peer().role);
    for (const Field& field : head.fields) seen += fmt::format("{}={};", field.name, field.value);
    exchange.respond({.status = 201, .body = seen, .fields = {{"X-Answer", "Yes"}}});
    co_return;
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    auto response =
        co_await client.send({.target = "/a?b", .fields = {{"Accept", "*/*"}, {"Host", "a.test"}}});
    EXPECT_TRUE(response.has_value());
    EXPECT_EQ(response->status(), 201);
    EXPECT_EQ(response->head().find("x-answer"), "Yes");
    EXPECT_TRUE(response->head().find("date").has_value());
    EXPECT_EQ(*co_await read_all(*response), "GET /a?b a.test sandbox|accept=*/*;");
  });
}

TEST_F(Http2Test, ThousandRequestsShareAConnection) {
  handle_with(echo);
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    for (int i = 0; i < 1000; ++i)
      EXPECT_EQ(*co_await fetch(client, {.method = "POST", .target = "/x", .body = "b"}),
                "POST /x b");
  });
}

TEST_F(Http2Test, MoreRequestsAtOnceThanTheServerRunsAreAllAnswered) {
  handle_with(echo, {.streams = 10});
  Http2Client& client = client_over(dial_socket());
  std::vector<std::future<Result<std::string>>> answers;
  run([&]() -> Task<> {  // the server's limit is known after this
    EXPECT_TRUE((co_await fetch(client, {})).has_value());
  });
  for (int i = 0; i < 50; ++i)
    answers.push_back(thread_.start([&] { return fetch(client, {.target = "/many"}); }));
  for (auto& answer : answers) EXPECT_EQ(*thread_.finish(std::move(answer)), "GET /many ");
}

TEST_F(Http2Test, LargeBodiesPassUnchangedBothWays) {
  handle_with(echo_stream);
  Http2Client& client = client_over(dial_socket());
  const std::string body = make_bytes(5'000'000);
  const auto answer = thread_.await(
      [&] { return fetch(client, {.method = "POST", .body_source = pieces_of(body, 10'000)}); });
  EXPECT_TRUE(*answer == body);
}

TEST_F(Http2Test, LargeWholeAnswerPassesUnchanged) {
  const std::string body = make_bytes(3'000'000);
  handle_with([&](Exchange& exchange) -> Task<> {
    exchange.respond({.body = body});
    co_return;
  });
  Http2Client& client = client_over(dial_socket());
  EXPECT_TRUE(*thread_.await([&] { return fetch(client, {}); }) == body);
}

// gRPC's way: each message is answered before the next one is sent.
TEST_F(Http2Test, AnswerFlowsWhileTheRequestIsStillBeingSent) {
  handle_with(echo_stream);
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    linux::Event turn(thread_.loop());
    int sent = 0;
    auto source = [&]() -> Task<Result<std::string_view>> {
      if (sent == 3) co_return std::string_view();
      if (sent > 0) co_await turn.wait(kNever);
      turn.reset();
      ++sent;
      co_return std::string_view("ping");
    };
    auto response = co_await client.send({.method = "POST", .body_source = source, .trailers = [] {
                                            return OwnedFields{{"Grpc-Status", "0"}};
                                          }});
    EXPECT_TRUE(response.has_value());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(*co_await response->read_body(), "ping");
      turn.set();
    }
    EXPECT_EQ(*co_await response->read_body(), "");
    EXPECT_EQ(response->trailers(), (OwnedFields{{"grpc-status", "0"}}));
  });
}

TEST_F(Http2Test, TrailersWithoutABodyArrive) {
  handle_with([](Exchange& exchange) -> Task<> {
    exchange.set_trailers({{"grpc-status", "5"}});
    exchange.respond({});
    co_return;
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    auto response = co_await client.send({});
    EXPECT_EQ(*co_await response->read_body(), "");
    EXPECT_EQ(response->trailers(), (OwnedFields{{"grpc-status", "5"}}));
  });
}

TEST_F(Http2Test, AnswersWithoutBodyHaveNone) {
  handle_with([](Exchange& exchange) -> Task<> {
    const bool empty = exchange.request().target == "/204";
    EXPECT_TRUE(co_await exchange.start({.status = empty ? 204 : 200, .content_length = 7}));
    EXPECT_TRUE(co_await exchange.write("1234567"));
    EXPECT_TRUE(co_await exchange.finish());
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    EXPECT_EQ(*co_await fetch(client, {.target = "/204"}), "");
    EXPECT_EQ(*co_await fetch(client, {.method = "HEAD"}), "");
    EXPECT_EQ(*co_await fetch(client, {}), "1234567");
  });
}

TEST_F(Http2Test, AnswerOfAnotherLengthThanAnnouncedIsCutOff) {
  handle_with([](Exchange& exchange) -> Task<> {
    const bool more = exchange.request().target == "/more";
    EXPECT_TRUE(co_await exchange.start({.content_length = 7}));
    EXPECT_EQ((co_await exchange.finish(more ? "12345678" : "123456")).has_value(), false);
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    EXPECT_FALSE((co_await fetch(client, {.target = "/more"})).has_value());
    EXPECT_FALSE((co_await fetch(client, {.target = "/less"})).has_value());
  });
}

TEST_F(Http2Test, AnswerThatIsNotFinishedNeverLooksComplete) {
  handle_with([](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/none") co_return;
    if (exchange.request().target == "/throw") throw std::runtime_error("a library's");
    (void)co_await exchange.start({});
    (void)co_await exchange.write("part");
    if (exchange.request().target == "/abort") exchange.abort();
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    EXPECT_EQ((co_await client.send({.target = "/none"}))->status(), 500);
    EXPECT_EQ((co_await client.send({.target = "/throw"}))->status(), 500);
    EXPECT_FALSE((co_await fetch(client, {.target = "/cut"})).has_value());
    EXPECT_FALSE((co_await fetch(client, {.target = "/abort"})).has_value());
    EXPECT_TRUE(client.is_usable());
  });
}

TEST_F(Http2Test, DroppedAnswerTellsTheHandler) {
  std::promise<bool> left;
  handle_with([&](Exchange& exchange) -> Task<> {
    (void)co_await exchange.start({});
    left.set_value(co_await exchange.wait_for_hang_up(exchange.loop().now() + kPatience));
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> { EXPECT_TRUE((co_await client.send({})).has_value()); });
  EXPECT_TRUE(left.get_future().get());
}

TEST_F(Http2Test, HandlerThatDoesNotNoticeItsClientLeftIsCancelled) {
  bool cancelled = false;
  handle_with(
      [&](Exchange& exchange) -> Task<> {
        struct Noted {
          bool& flag;
          ~Noted() { flag = true; }
        } const noted{cancelled};
        (void)co_await exchange.start({});
        co_await exchange.loop().sleep_until(kNever);
      },
      {.leave_time = std::chrono::milliseconds(1)});
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> { EXPECT_TRUE((co_await client.send({})).has_value()); });
  EXPECT_TRUE(thread_.eventually([&] { return cancelled; }));
}

TEST_F(Http2Test, SlowReaderHoldsTheHandlerBack) {
  std::size_t written = 0;
  handle_with([&](Exchange& exchange) -> Task<> {
    (void)co_await exchange.start({});
    const std::string piece(10'000, 'x');
    for (int i = 0; i < 1000; ++i) {
      if (!co_await exchange.write(piece)) co_return;
      written += piece.size();
    }
    (void)co_await exchange.finish();
  });
  Http2Limits limits = Http2Limits::for_client();
  limits.stream_window = 100'000;
  Http2Client& client = client_over(dial_socket(), limits);
  run([&]() -> Task<> {
    auto response = co_await client.send({});
    co_await thread_.loop().sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(written, 100'000 + limits_.queue_bytes);
    EXPECT_EQ((*co_await read_all(*response)).size(), 10'000'000);
  });
}

TEST_F(Http2Test, SlowHandlerHoldsTheSenderBack) {
  linux::Event go(thread_.loop());
  std::size_t sent = 0;
  handle_with([&](Exchange& exchange) -> Task<> {
    co_await go.wait(kNever);
    co_await echo(exchange);
  });
  Http2Client& client = client_over(dial_socket());
  const std::string piece(10'000, 'x');
  auto answer = thread_.start([&] {
    return fetch(client, {.method = "POST", .body_source = [&]() -> Task<Result<std::string_view>> {
                            if (sent == 5'000'000) co_return std::string_view();
                            sent += piece.size();
                            co_return std::string_view(piece);
                          }});
  });
  run([&]() -> Task<> {
    co_await thread_.loop().sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(sent, limits_.stream_window + limits_.queue_bytes + 2 * piece.size());
    go.set();
  });
  EXPECT_EQ(thread_.finish(std::move(answer))->size(), 5'000'000 + 7);
}

// 16 of them fill the connection's window: it must come back when they are dropped.
TEST_F(Http2Test, BodiesNobodyReadsDoNotBlockTheConnection) {
  handle_with([](Exchange& exchange) -> Task<> {
    if (exchange.request().target == "/read") co_return co_await echo(exchange);
    exchange.respond({.status = 413});
  });
  Http2Client& client = client_over(dial_socket());
  const std::string body = make_bytes(300'000);
  run([&]() -> Task<> {
    for (int i = 0; i < 60; ++i) {
      auto response = co_await client.send({.method = "POST", .body = body});
      EXPECT_TRUE(response.has_value());
      if (response) EXPECT_EQ(response->status(), 413);
    }
    EXPECT_EQ((co_await fetch(client, {.method = "POST", .target = "/read", .body = body}))->size(),
              300'000 + 11);
  });
}

TEST_F(Http2Test, AnswersThatAreDroppedDoNotBlockTheConnection) {
  handle_with([](Exchange& exchange) -> Task<> {
    exchange.respond({.body = std::string(1'000'000, 'x')});
    co_return;
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    for (int i = 0; i < 60; ++i) {
      auto response = co_await client.send({});
      EXPECT_TRUE(response.has_value());
      co_await thread_.loop().next_round();
    }
    EXPECT_EQ((co_await fetch(client, {}))->size(), 1'000'000);
  });
}

TEST_F(Http2Test, ABodyThatComesAlongWithItsHeadIsABody) {
  handle_with(echo);
  FramePeer peer = dial();
  Pairs fields = request_fields();
  fields.front().second = "POST";
  // In one write, so that all of it is there before anyone looks.
  peer.send(std::string(kMagic) + frame(kSettings, 0, 0) +
            frame(kHeaders, kEndHeaders, 1, hpack(fields)) + frame(kData, kEndStream, 1, "hello"));
  EXPECT_EQ(peer.read_body(1), "POST / hello");
}

TEST_F(Http2Test, BodyPastTheLimitIsRefused) {
  handle_with(echo, {.body_bytes = 1000});
  Http2Client& client = client_over(dial_socket());
  const std::string body(2000, 'x');
  run([&]() -> Task<> {
    EXPECT_THAT(*co_await fetch(client, {.method = "POST", .body = body}), HasSubstr("larger"));
    EXPECT_THAT(*co_await fetch(client, {.method = "POST", .body_source = pieces_of(body, 100)}),
                HasSubstr("larger"));
  });
}

TEST_F(Http2Test, SourceThatFailsCutsTheRequestOff) {
  std::atomic<bool> whole = false;
  handle_with([&](Exchange& exchange) -> Task<> {
    whole = (co_await exchange.read_whole_body(1000)).has_value();
    exchange.respond({});
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    int calls = 0;
    auto failing = [&]() -> Task<Result<std::string_view>> {
      if (calls++ == 0) co_return std::string_view("part");
      co_return make_error(ErrorCode::kDenied, "read source", "no");
    };
    const auto answer = co_await client.send({.method = "POST", .body_source = failing});
    EXPECT_EQ(answer.error().code, ErrorCode::kDenied);
    const std::string body = "1234";
    for (const std::uint64_t lie : {3, 5}) {
      const auto lied = co_await client.send(
          {.method = "POST", .body_source = pieces_of(body, 4), .body_bytes = lie});
      EXPECT_EQ(lied.error().code, ErrorCode::kInvalid);
    }
  });
  EXPECT_FALSE(whole);
}

TEST_F(Http2Test, RequestsThatCannotBeSentAreRefusedBeforehand) {
  handle_with(echo);
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> {
    const auto code = [&](ClientRequest request) -> Task<ErrorCode> {
      const auto answer = co_await client.send(std::move(request));
      co_return answer ? ErrorCode::kInternal : answer.error().code;
    };
    for (const char* name : {"Connection", "upgrade", "Transfer-Encoding", "content-length", "a b"})
      EXPECT_EQ(co_await code({.fields = {{name, "x"}}}), ErrorCode::kInvalid) << name;
    EXPECT_EQ(co_await code({.fields = {{"host", "b.test"}}}), ErrorCode::kInvalid);
    EXPECT_EQ(co_await code({.fields = {{"te", "gzip"}}}), ErrorCode::kInvalid);
    EXPECT_EQ(co_await code({.fields = {{"x", "a\r\nb"}}}), ErrorCode::kInvalid);
    EXPECT_EQ(co_await code({.method = "CONNECT"}), ErrorCode::kInvalid);
    EXPECT_EQ(co_await code({.target = "a.test"}), ErrorCode::kInvalid);
    EXPECT_EQ(co_await code({.target = "/a b"}), ErrorCode::kInvalid);
    EXPECT_EQ(*co_await fetch(client, {}), "GET / ");
  });
}

TEST_F(Http2Test, WebSocketIsRefused) {
  handle_with([](Exchange& exchange) -> Task<> {
    EXPECT_EQ((co_await exchange.accept_websocket()).error().code, ErrorCode::kUnsupported);
  });
  Http2Client& client = client_over(dial_socket());
  run([&]() -> Task<> { EXPECT_EQ((co_await client.send({}))->status(), 501); });
}

// ---- one handler, two versions

class RelayTest : public Http2Test {
 protected:
  static Task<> relay(Exchange& exchange, UpstreamLink& link) {
    ClientRequest request{.method = std::string(exchange.request().method),
                          .target = std::string(exchange.request().target)};
    if (exchange.request().framing != BodyFraming::kNone)
      request.body_source = [&] { return exchange.read_body(); };
    auto answer = co_await link.send(std::move(request));
    if (!answer) co_return exchange.respond({.status = 502, .body = answer.error().describe()});
    (void)co_await exchange.start({.status = (*answer)->status()});
    for (;;) {
      const auto piece = co_await (*answer)->read_body();
      if (!piece) co_return exchange.abort();
      if (piece->empty()) break;
      if (!co_await exchange.write(*piece)) co_return;
    }
    exchange.set_trailers((*answer)->trailers());
    (void)co_await exchange.finish();
  }
};

TEST_F(RelayTest, HandlerRelaysOverBothVersions) {
  const std::string body = make_bytes(1'000'000);
  auto origin = std::make_unique<Server>(thread_.loop(), ServerLimits{}, echo_stream);
  linux::UniqueFd listener = std::move(*linux::listen_tcp("127.0.0.1", 0));
  const std::uint16_t port = TextListener::port_of(listener.get());
  thread_.call([&] { expect_ok(origin->listen(std::move(listener), "public")); });
  handle_with(echo_stream);
  linux::UniqueFd to_origin = dial_socket();

  std::unique_ptr<UpstreamLink> link1;
  std::unique_ptr<UpstreamLink> link2;
  thread_.call([&] {
    link1 =
        link_over_http1(thread_.loop(), tcp_connector(thread_.loop(), "127.0.0.1", port), "a.test");
    link2 = link_over_http2(
        thread_.loop(), std::move(*create_plain_transport(thread_.loop(), std::move(to_origin))),
        "a.test", "http");
  });
  for (UpstreamLink* link : {link1.get(), link2.get()}) {
    handle_with([link](Exchange& exchange) { return relay(exchange, *link); });
    Http2Client& client = client_over(dial_socket());
    const bool is_duplex = link == link2.get();  // echo_stream answers while it reads
    const std::string sent = is_duplex ? body : body.substr(0, 30'000);
    const auto answer = thread_.await(
        [&] { return fetch(client, {.method = "POST", .body_source = pieces_of(sent, 10'000)}); });
    EXPECT_TRUE(answer.has_value() && *answer == sent);
    EXPECT_TRUE(thread_.call([&] { return link->is_usable(); }));
  }
  thread_.call([&] {
    clients_.clear();
    connections_.reset();
    link1.reset();
    link2.reset();
    origin.reset();
  });
}

}  // namespace
}  // namespace pons::http

// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
