// The client against servers that the test plays by hand, byte for byte, and against our own.

#include "pons/http/client.h"

#include "client_fixture.h"

namespace pons::http {
namespace {

using std::chrono::milliseconds;

// ---- what is sent

TEST_F(ClientTest, RequestsAreWrittenAsTheyShould) {
  use();
  auto get = begin({.target = "/a?b=c", .fields = {{"X-Y", "z"}}});
  TextPeer server = origin_.accept();
  EXPECT_EQ(server.read_until("\r\n\r\n"), "GET /a?b=c HTTP/1.1\r\nX-Y: z\r\nHost: origin\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(body_of(std::move(get)), "");
  auto post = begin({.method = "POST", .fields = {{"Host", "other"}}, .body = "hello"});
  EXPECT_EQ(server.read_until("hello"),
            "POST / HTTP/1.1\r\nHost: other\r\nContent-Length: 5\r\n\r\nhello");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(body_of(std::move(post)), "");
}

TEST_F(ClientTest, NothingFromOutsideCanAddToTheHead) {
  use();
  const std::string nul("/a\0b", 4);
  for (const ClientRequest& request : std::vector<ClientRequest>{
           {.method = "GET / HTTP/1.1\r\nX:"},
           {.method = ""},
           {.target = "/ HTTP/1.1\r\nX: y"},
           {.target = "/a b"},
           {.target = "/a\nb"},
           {.target = nul},
           {.target = ""},
           {.fields = {{"X", "y\r\nZ: w"}}},
           {.fields = {{"X: y\r\nZ", "w"}}},
           {.fields = {{"X", std::string("y\0z", 3)}}},
           {.fields = {{"", "y"}}},
           {.fields = {{"content-length", "5"}}},
           {.fields = {{"Transfer-Encoding", "chunked"}}},
       }) {
    EXPECT_EQ(failure(begin(request)), ErrorCode::kInvalid);
    TextPeer server = origin_.accept();
    EXPECT_EQ(server.read_to_end(), "") << "something was sent";
  }
}

// Counts how often it is asked, and waits for nobody.
struct CountingSource {
  std::size_t pieces_left;
  std::atomic<std::size_t> asked = 0;
  std::string piece = std::string(64 * 1024, 's');
  Task<Result<std::string_view>> next() {
    ++asked;
    if (pieces_left == 0) co_return std::string_view();
    --pieces_left;
    co_return std::string_view(piece);
  }
};

TEST_F(ClientTest, BodyFromASourceIsSentInChunks) {
  use();
  CountingSource source{.pieces_left = 2, .piece = "hello"};
  auto running = begin({.method = "POST", .body_source = [&] { return source.next(); }});
  TextPeer server = origin_.accept();
  EXPECT_EQ(server.read_until("\r\n\r\n"),
            "POST / HTTP/1.1\r\nHost: origin\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(server.read_until("0\r\n\r\n"), "5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(body_of(std::move(running)), "ok");
}

TEST_F(ClientTest, SourceIsNotAskedWhileTheServerDoesNotRead) {
  use();
  CountingSource source{.pieces_left = 1600};  // 100 MB
  auto running = begin({.method = "POST", .body_source = [&] { return source.next(); }});
  TextPeer server = origin_.accept();
  std::size_t last = 0;
  int unchanged = 0;
  ASSERT_TRUE(thread_.eventually([&] {
    unchanged = std::exchange(last, source.asked.load()) == source.asked ? unchanged + 1 : 0;
    return unchanged > 50;
  }));
  EXPECT_LT(source.asked, 128U) << "more than 8 MB were taken";
  server.read_until("\r\n\r\n");
  server.read_exactly(8 << 20);
  EXPECT_TRUE(thread_.eventually([&] { return source.asked > last; }));
  server.reset();
  EXPECT_EQ(failure(std::move(running)), ErrorCode::kUnavailable);
}

TEST_F(ClientTest, ServerThatTakesNothingIsGivenUp) {
  use({.write_stall = milliseconds(50)});
  CountingSource source{.pieces_left = 1600};
  auto running = begin({.method = "POST", .body_source = [&] { return source.next(); }});
  const TextPeer server = origin_.accept();
  EXPECT_EQ(failure(std::move(running)), ErrorCode::kTimeout);
}

TEST_F(ClientTest, FailedSourceFailsTheRequestAndEndsTheConnection) {
  use();
  const auto fail = []() -> Task<Result<std::string_view>> {
    co_return make_error(ErrorCode::kDenied, "read source", "no");
  };
  auto running = begin({.method = "POST", .body_source = fail});
  TextPeer server = origin_.accept();
  EXPECT_FALSE(server.read_to_end().ends_with("0\r\n\r\n")) << "it must not look complete";
  EXPECT_EQ(failure(std::move(running)), ErrorCode::kDenied);
}

TEST_F(ClientTest, AnswerThatComesBeforeTheBodyWasTakenIsHeard) {
  use();
  CountingSource source{.pieces_left = 1600};
  auto running = begin({.method = "POST", .body_source = [&] { return source.next(); }});
  {
    TextPeer server = origin_.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge");
  }  // closes with unread input: a reset follows the answer
  const auto fetched = thread_.finish(std::move(running));
  ASSERT_TRUE(fetched.has_value()) << fetched.error().describe();
  EXPECT_EQ(fetched->status, 413);
  EXPECT_EQ(fetched->body, "large");
}

// ---- kept connections

TEST_F(ClientTest, ConnectionIsUsedAgain) {
  use();
  auto first = begin();
  TextPeer server = origin_.accept();
  for (const auto* answer :
       {"Content-Length: 2\r\n\r\nok", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "Content-Length: 2\r\n\r\nok"}) {
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\n" + std::string(answer));
    EXPECT_EQ(body_of(std::move(first)), "ok");
    first = begin();
  }
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(body_of(std::move(first)), "ok");
  EXPECT_FALSE(origin_.has_waiting());
}

class NotReusedTest : public ClientTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(NotReusedTest, AConnectionThatIsOverOrInDoubtIsNotKept) {
  use();
  auto first = begin();
  TextPeer server = origin_.accept();
  server.read_until("\r\n\r\n");
  server.send(GetParam());
  EXPECT_EQ(body_of(std::move(first)), "ok");
  auto second = begin({.method = "POST"});
  TextPeer next = origin_.accept();
  next.read_until("\r\n\r\n");
  next.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
  EXPECT_EQ(body_of(std::move(second)), "new");
}

INSTANTIATE_TEST_SUITE_P(
    Answers, NotReusedTest,
    ::testing::Values("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                      "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                      // The server sent more than its answer: whose would that be?
                      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
                      "Content-Length: 6\r\n\r\npoison"));

TEST_F(ClientTest, BytesThatComeAfterAnAnswerAreNoAnswerToTheNextRequest) {
  use();
  auto first = begin();
  TextPeer server = origin_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(body_of(std::move(first)), "ok");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison");
  auto second = begin();
  TextPeer next = origin_.accept();
  next.read_until("\r\n\r\n");
  next.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
  EXPECT_EQ(body_of(std::move(second)), "new");
}

// A server that takes the next request of a kept connection and closes without a word.
class StaleTest : public ClientTest {
 protected:
  std::future<Result<Fetched>> go_stale(ClientRequest request) {
    use();
    auto first = begin();
    TextPeer server = origin_.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_EQ(body_of(std::move(first)), "ok");
    auto second = begin(std::move(request));
    server.read_until("\r\n\r\n");
    return second;
  }
};

TEST_F(StaleTest, GetIsSentAgainOnANewConnection) {
  auto second = go_stale({});
  TextPeer next = origin_.accept();
  EXPECT_EQ(next.read_until("\r\n\r\n"), "GET / HTTP/1.1\r\nHost: origin\r\n\r\n");
  next.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
  EXPECT_EQ(body_of(std::move(second)), "new");
}

TEST_F(StaleTest, GetIsSentAgainOnlyOnce) {
  auto second = go_stale({});
  origin_.accept().read_until("\r\n\r\n");
  EXPECT_EQ(failure(std::move(second)), ErrorCode::kUnavailable);
  EXPECT_FALSE(origin_.has_waiting());
}

TEST_F(StaleTest, PostIsNeverSentTwice) {
  EXPECT_EQ(failure(go_stale({.method = "POST", .body = "pay"})), ErrorCode::kUnavailable);
  EXPECT_FALSE(origin_.has_waiting());
}

TEST_F(ClientTest, GetIsNotSentAgainOnceAnAnswerHasBegun) {
  use();
  auto first = begin();
  {
    TextPeer server = origin_.accept();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_EQ(body_of(std::move(first)), "ok");
    first = begin();
    server.read_until("\r\n\r\n");
    server.send("HTTP/1.1 2");
  }
  EXPECT_EQ(failure(std::move(first)), ErrorCode::kUnavailable);
  EXPECT_FALSE(origin_.has_waiting());
}

TEST_F(ClientTest, ConnectionsAreKeptUpToTheLimitAndTheirTime) {
  use({.idle_connections = 1});
  auto a = begin();
  TextPeer first = origin_.accept();
  auto b = begin();
  TextPeer second = origin_.accept();
  for (TextPeer* server : {&first, &second}) {
    server->read_until("\r\n\r\n");
    server->send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    EXPECT_EQ(body_of(std::move(server == &first ? a : b)), "ok");
  }
  EXPECT_EQ(second.ending(), Ending::kClosed);
  EXPECT_TRUE(first.is_quiet());
}

TEST_F(ClientTest, DroppedResponseClosesItsConnection) {
  use();
  const auto send_and_drop = [](Client& client) -> Task<int> {
    auto response = co_await client.send({});
    co_return response ? response->status() : 0;
  };
  auto running = thread_.start([&] { return send_and_drop(*client_); });
  TextPeer server = origin_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
  EXPECT_EQ(thread_.finish(std::move(running)), 200);
  EXPECT_NE(server.ending(), Ending::kStillOpen);
}

TEST_F(ClientTest, CancelledRequestClosesItsConnection) {
  use();
  const auto give_up = [](linux::Loop& loop, Client& client) -> Task<bool> {
    co_return (co_await linux::within(loop, loop.now() + milliseconds(20), client.send({})))
        .has_value();
  };
  auto running = thread_.start([&] { return give_up(thread_.loop(), *client_); });
  TextPeer server = origin_.accept();
  EXPECT_FALSE(thread_.finish(std::move(running)));
  EXPECT_EQ(server.ending(), Ending::kClosed);
}

// ---- answers

TEST_F(ClientTest, BodiesOfEveryFramingAreRead) {
  use();
  EXPECT_EQ(body_of(exchange("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")), "hello");
  EXPECT_EQ(body_of(exchange("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n")),
            "hello");
  EXPECT_EQ(body_of(exchange("HTTP/1.1 200 OK\r\n\r\nhello")), "hello");
  EXPECT_EQ(body_of(exchange("HTTP/1.0 200 OK\r\n\r\n")), "");
  EXPECT_EQ(body_of(exchange("HTTP/1.1 204 No Content\r\n\r\n")), "");
  EXPECT_EQ(body_of(exchange("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", {.method = "HEAD"})),
            "");
}

TEST_F(ClientTest, LargeBodiesAreReadWhole) {
  use();
  const std::string body(5'000'000, 'x');
  auto running = begin();
  TextPeer server = origin_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + body);
  EXPECT_EQ(body_of(std::move(running)), body);
}

TEST_F(ClientTest, BodyCutShortIsAnErrorAndNotAnEnd) {
  use();
  EXPECT_EQ(failure(exchange("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")),
            ErrorCode::kUnavailable);
  EXPECT_EQ(
      failure(exchange("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")),
      ErrorCode::kUnavailable);
  EXPECT_EQ(
      failure(exchange("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")),
      ErrorCode::kUnavailable);
}

TEST_F(ClientTest, ResetInABodyThatEndsWithTheConnectionIsAnError) {
  use();
  auto running = begin();
  TextPeer server = origin_.accept();
  server.send("HTTP/1.1 200 OK\r\n\r\nhalf");  // the request stays unread: closing resets
  server.reset();
  EXPECT_EQ(failure(std::move(running)), ErrorCode::kUnavailable);
}

TEST_F(ClientTest, AnswersThatAreNotHttpAreRefused) {
  use();
  for (const auto* answer :
       {"SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"})
    EXPECT_EQ(failure(exchange(answer)), ErrorCode::kInvalid) << answer;
  EXPECT_EQ(failure(exchange("")), ErrorCode::kUnavailable);
}

TEST_F(ClientTest, InterimAnswersArePassedOver) {
  use();
  EXPECT_EQ(
      body_of(exchange("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")),
      "ok");
}

TEST_F(ClientTest, InterimAnswersWithoutEndAreRefused) {
  use();
  std::string hints;
  for (int i = 0; i < 100; ++i) hints += "HTTP/1.1 103 Early Hints\r\n\r\n";
  EXPECT_EQ(failure(exchange(hints)), ErrorCode::kInvalid);
}

TEST_F(ClientTest, AnswersPastTheLimitsAreRefused) {
  use({.head = {.bytes = 1024}});
  EXPECT_EQ(failure(exchange("HTTP/1.1 200 OK\r\nX: " + std::string(2000, 'x') + "\r\n\r\n")),
            ErrorCode::kInvalid);
  const auto read_four = [](Client& client) -> Task<Result<std::string>> {
    CO_TRY(ClientResponse response, co_await client.send({}));
    co_return co_await response.read_whole_body(4);
  };
  auto running = thread_.start([&] { return read_four(*client_); });
  TextPeer server = origin_.accept();
  server.read_until("\r\n\r\n");
  server.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  const auto body = thread_.finish(std::move(running));
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().code, ErrorCode::kLimit);
}

// ---- time

TEST_F(ClientTest, ServerThatDoesNotAnswerIsGivenUp) {
  use({.first_byte_time = milliseconds(30)});
  auto running = begin();
  TextPeer server = origin_.accept();
  EXPECT_EQ(failure(std::move(running)), ErrorCode::kTimeout);
  server.read_until("\r\n\r\n");
  EXPECT_EQ(server.ending(), Ending::kClosed);
}

TEST_F(ClientTest, AnswerThatStopsIsGivenUp) {
  use({.idle_time = milliseconds(30)});
  for (const auto* begun :
       {"HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"}) {
    auto running = begin();
    TextPeer server = origin_.accept();
    server.read_until("\r\n\r\n");
    server.send(begun);
    EXPECT_EQ(failure(std::move(running)), ErrorCode::kTimeout) << begun;
  }
}

TEST_F(ClientTest, ConnectionThatIsNotMadeInTimeIsGivenUp) {
  // A full backlog lets the kernel drop further greetings: the client hears nothing at all.
  linux::UniqueFd full = std::move(*linux::listen_tcp("127.0.0.1", 0, 0));
  const std::uint16_t port = TextListener::port_of(full.get());
  const TextPeer filling = TextPeer::connect_tcp(port);
  connect_with(tcp_connector(thread_.loop(), "127.0.0.1", port),
               {.connect_time = milliseconds(50)});
  EXPECT_EQ(failure(begin()), ErrorCode::kTimeout);
}

TEST_F(ClientTest, NobodyListeningIsSaid) {
  linux::UniqueFd listener = std::move(*linux::listen_tcp("127.0.0.1", 0));
  const std::uint16_t port = TextListener::port_of(listener.get());
  listener.reset();
  connect_with(tcp_connector(thread_.loop(), "127.0.0.1", port));
  EXPECT_EQ(failure(begin()), ErrorCode::kUnavailable);
  connect_with(tcp_connector(thread_.loop(), "localhost", port));
  EXPECT_EQ(failure(begin()), ErrorCode::kInvalid) << "names are not resolved here";
  const TempDir dir;
  connect_with(unix_connector(thread_.loop(), dir.file("none")));
  EXPECT_EQ(failure(begin()), ErrorCode::kNotFound);
}

// ---- against our own server

class BothSidesTest : public ServerTest {
 protected:
  ~BothSidesTest() override {
    thread_.call([this] { client_.reset(); });
  }
  Result<Fetched> ask(Connector connector, ClientRequest request) {
    thread_.call([&] {
      client_ = std::make_unique<Client>(thread_.loop(), std::move(connector), "origin");
    });
    return thread_.await([&] { return fetch(*client_, std::move(request)); });
  }
  std::unique_ptr<Client> client_;
};

Task<> echo(Exchange& exchange) {
  expect_ok(co_await exchange.start({.content_type = "application/octet-stream"}));
  for (;;) {
    const auto piece = co_await exchange.read_body();
    if (!piece) co_return exchange.abort();
    if (piece->empty()) break;
    expect_ok(co_await exchange.write(*piece));
  }
  expect_ok(co_await exchange.finish());
}

TEST_F(BothSidesTest, ConverseOverEveryKindOfSocket) {
  serve(echo);
  const TempDir dir;
  const std::uint16_t port6 = thread_.call([&] {
    expect_ok(server_->listen(std::move(*linux::listen_unix(dir.file("socket"), 0600)), "admin"));
    return listen(nullptr, "::1");
  });
  for (const Connector& connector : {tcp_connector(thread_.loop(), "127.0.0.1", port_),
                                     tcp_connector(thread_.loop(), "::1", port6),
                                     unix_connector(thread_.loop(), dir.file("socket"))}) {
    const auto fetched = ask(connector, {.method = "POST", .body = "hello"});
    ASSERT_TRUE(fetched.has_value()) << fetched.error().describe();
    EXPECT_EQ(fetched->body, "hello");
  }
}

Task<> echo_whole(Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(16 << 20);
  exchange.respond({.body = body ? std::move(*body) : "error"});
}

TEST_F(BothSidesTest, MegabytesPassFromSourceThroughHandlerToReader) {
  serve(echo_whole);
  CountingSource source{.pieces_left = 100};
  const auto fetched = ask(tcp_connector(thread_.loop(), "127.0.0.1", port_),
                           {.method = "POST", .body_source = [&] { return source.next(); }});
  ASSERT_TRUE(fetched.has_value()) << fetched.error().describe();
  EXPECT_EQ(fetched->body, std::string(100 * 64 * 1024, 's'));
}

TEST_F(BothSidesTest, ManyRequestsShareOneConnection) {
  serve(echo);
  const auto ask_often = [](Client& client) -> Task<int> {
    int answered = 0;
    for (int i = 0; i < 200; ++i) {
      const auto fetched = co_await fetch(client, {.method = "POST", .body = "hello"});
      if (fetched && fetched->body == "hello") ++answered;
    }
    co_return answered;
  };
  thread_.call([&] {
    client_ = std::make_unique<Client>(thread_.loop(),
                                       tcp_connector(thread_.loop(), "127.0.0.1", port_), "origin");
  });
  EXPECT_EQ(thread_.await([&] { return ask_often(*client_); }), 200);
  EXPECT_EQ(thread_.call([&] { return server_->connection_count(); }), 1U);
}

}  // namespace
}  // namespace pons::http
