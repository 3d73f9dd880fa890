// WebSockets over real connections: ours against ours, and each side against a peer that the test
// plays frame by frame.

#include "pons/http/websocket.h"

#include <atomic>

#include "http_fixture.h"
#include "pons/http/client.h"
#include "pons/http/websocket_pair.h"

namespace pons::http {
namespace {

using std::chrono::milliseconds;
using namespace std::string_literals;

constexpr std::string_view kUpgrade =
    "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
// The key and its answer are those of RFC 6455, section 1.3.
constexpr std::string_view kUpgraded =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

std::string from_client(WebSocketEventKind kind, std::string_view payload, std::uint16_t code = 0) {
  std::string frame;
  append_websocket_frame(frame, WebSocketRole::kClient, kind, payload, code);
  return frame;
}
std::string from_server(WebSocketEventKind kind, std::string_view payload, std::uint16_t code = 0) {
  std::string frame;
  append_websocket_frame(frame, WebSocketRole::kServer, kind, payload, code);
  return frame;
}

// How a conversation ended, as the server's handler saw it.
struct Ended {
  std::optional<Error> error;
  std::uint16_t close_code = 0;
};

// Echoes until the socket ends.
Task<> echo(Exchange& exchange, std::promise<Ended>& ended, WebSocketLimits limits) {
  auto accepted = co_await exchange.accept_websocket(limits);
  if (!accepted) co_return;
  WebSocket& socket = **accepted;
  for (;;) {
    auto message = co_await socket.receive(exchange.loop().now() + kPatience);
    if (!message || !*message) {
      const auto again = co_await socket.receive(exchange.loop().now() + kPatience);
      EXPECT_EQ(again.has_value(), message.has_value()) << "the end is final";
      co_return ended.set_value(
          {message ? std::nullopt : std::optional(message.error()), socket.close_code()});
    }
    const std::string& payload = (*message)->payload;
    expect_ok((*message)->kind == WebSocketMessage::Kind::kText
                  ? co_await socket.send_text(payload)
                  : co_await socket.send_binary(payload));
  }
}

class WebSocketServerTest : public ServerTest {
 protected:
  ~WebSocketServerTest() override { stop(); }
  void serve_echo(WebSocketLimits limits = {}) {
    serve([this, limits](Exchange& exchange) { return echo(exchange, ended_, limits); });
  }
  TextPeer open() {
    TextPeer peer = dial();
    peer.send(kUpgrade);
    EXPECT_EQ(peer.read_until("\r\n\r\n"), kUpgraded);
    return peer;
  }
  // The peer must see exactly these bytes next.
  static void expect(TextPeer& peer, const std::string& frame) {
    EXPECT_EQ(to_hex(peer.read_exactly(frame.size())), to_hex(frame));
  }
  Ended ended() { return ended_.get_future().get(); }

  std::promise<Ended> ended_;
};

TEST_F(WebSocketServerTest, EchoesTextAndBinary) {
  serve_echo();
  TextPeer peer = open();
  for (const std::size_t size : {0, 1, 125, 126, 65535, 65536, 1'000'000}) {
    const std::string payload(size, 'p');
    peer.send(from_client(WebSocketEventKind::kText, payload));
    expect(peer, from_server(WebSocketEventKind::kText, payload));
    peer.send(from_client(WebSocketEventKind::kBinary, payload));
    expect(peer, from_server(WebSocketEventKind::kBinary, payload));
  }
}

TEST_F(WebSocketServerTest, FramesThatCameWithTheHandshakeAreNotLost) {
  serve_echo();
  TextPeer peer = dial();
  peer.send(std::string(kUpgrade) + from_client(WebSocketEventKind::kText, "early") +
            from_client(WebSocketEventKind::kText, "too"));
  EXPECT_EQ(peer.read_until("\r\n\r\n"), kUpgraded);
  expect(peer, from_server(WebSocketEventKind::kText, "early"));
  expect(peer, from_server(WebSocketEventKind::kText, "too"));
}

TEST_F(WebSocketServerTest, FragmentsAreOneMessageAndPingsAreAnsweredBetweenThem) {
  serve_echo();
  TextPeer peer = open();
  // Masked with a key of zeros: "Hel", a ping, "lo".
  peer.send("\x01\x83\0\0\0\0Hel"s);
  peer.send(from_client(WebSocketEventKind::kPing, "are you there"));
  expect(peer, from_server(WebSocketEventKind::kPong, "are you there"));
  peer.send("\x80\x82\0\0\0\0lo"s);
  expect(peer, from_server(WebSocketEventKind::kText, "Hello"));
}

TEST_F(WebSocketServerTest, FramesByteByByteAreTheSame) {
  serve_echo();
  TextPeer peer = open();
  for (const char byte : from_client(WebSocketEventKind::kText, "slowly")) peer.send({&byte, 1});
  expect(peer, from_server(WebSocketEventKind::kText, "slowly"));
}

TEST_F(WebSocketServerTest, CloseIsAnsweredWithItsCode) {
  serve_echo();
  TextPeer peer = open();
  peer.send(from_client(WebSocketEventKind::kClose, "bye", 1001));
  expect(peer, from_server(WebSocketEventKind::kClose, "", 1001));
  EXPECT_EQ(peer.ending(), Ending::kClosed);
  const Ended how = ended();
  EXPECT_FALSE(how.error);
  EXPECT_EQ(how.close_code, 1001);
}

TEST_F(WebSocketServerTest, CloseWithoutACodeIsAnsweredWithoutOne) {
  serve_echo();
  TextPeer peer = open();
  peer.send(from_client(WebSocketEventKind::kClose, ""));
  expect(peer, from_server(WebSocketEventKind::kClose, ""));
  EXPECT_EQ(ended().close_code, 1005);
}

TEST_F(WebSocketServerTest, ConnectionThatJustEndsIsAnError) {
  serve_echo();
  TextPeer peer = open();
  peer.close();
  const Ended how = ended();
  ASSERT_TRUE(how.error);
  EXPECT_EQ(how.error->code, ErrorCode::kUnavailable);
}

struct BadFrames {
  std::string bytes;
  std::uint16_t close_code;
};

TEST_F(WebSocketServerTest, BadFramesAreRefusedWithTheCodeForThem) {
  for (const auto& [bytes, code] : std::vector<BadFrames>{
           {"\x81\x02hi"s, 1002},                          // not masked
           {"\xc1\x80\0\0\0\0"s, 1002},                    // a reserved bit
           {"\x83\x80\0\0\0\0"s, 1002},                    // an unknown opcode
           {"\x80\x80\0\0\0\0"s, 1002},                    // continues nothing
           {"\x09\x80\0\0\0\0"s, 1002},                    // a fragmented ping
           {"\x88\x81\0\0\0\0x"s, 1002},                   // a close with half a code
           {"\x81\x82\0\0\0\0\xc3\x28"s, 1007},            // not UTF-8
           {"\x82\xff\0\0\0\0\0\x10\0\0\0\0\0\0"s, 1009},  // announces a megabyte
       }) {
    ended_ = {};
    serve_echo({.message_bytes = 1000});
    TextPeer peer = open();
    // What the peer goes on sending does not destroy the answer.
    peer.try_send(bytes + std::string(100'000, 'x'));
    const std::string close = peer.read_exactly(4);
    ASSERT_EQ(close.size(), 4U) << to_hex(bytes);
    EXPECT_EQ(close[0], '\x88') << to_hex(bytes);
    EXPECT_EQ((static_cast<unsigned char>(close[2]) << 8) | static_cast<unsigned char>(close[3]),
              code)
        << to_hex(bytes);
    peer.read_to_end();
    peer.close();
    const Ended how = ended();
    ASSERT_TRUE(how.error);
    EXPECT_EQ(how.error->code, ErrorCode::kInvalid);
    stop();
  }
}

TEST_F(WebSocketServerTest, MessageMadeOfFragmentsPastTheLimitIsRefused) {
  serve_echo({.message_bytes = 1000});
  TextPeer peer = open();
  peer.send("\x01\xfe\x02\x58\0\0\0\0"s + std::string(600, 'x'));
  peer.send("\x00\xfe\x02\x58\0\0\0\0"s + std::string(600, 'x'));
  EXPECT_EQ(to_hex(peer.read_exactly(4)).substr(4), "03f1");  // 1009
  peer.close();
  EXPECT_TRUE(ended().error);
}

TEST_F(WebSocketServerTest, RequestsThatAreNoUpgradeAreExplained) {
  serve_echo();
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  std::string answer = peer.read_answer();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 426 ")) << answer;
  EXPECT_TRUE(answer.contains("\r\nUpgrade: websocket\r\n"));
  peer.send(
      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  answer = peer.read_answer();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 426 "));
  EXPECT_TRUE(answer.contains("\r\nSec-WebSocket-Version: 13\r\n"));
  peer.send(
      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n");
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 400 "));
}

// ---- several senders

constexpr std::size_t kSenders = 5;
constexpr std::size_t kMessagesEach = 40;

Task<> send_many(WebSocket& socket, char letter, std::atomic<std::size_t>& sent) {
  for (std::size_t i = 0; i < kMessagesEach; ++i) {
    expect_ok(co_await socket.send_text(std::string(50'000, letter)));
    ++sent;
  }
}

Task<> send_from_all(Exchange& exchange, std::atomic<std::size_t>& sent) {
  auto socket = std::move(*co_await exchange.accept_websocket());
  linux::TaskGroup senders(exchange.loop());
  for (std::size_t i = 0; i < kSenders; ++i)
    senders.spawn(send_many(*socket, static_cast<char>('a' + i), sent));
  co_await senders.wait_until_empty(kNever);
  expect_ok(co_await socket->close(1000, "done"));
}

TEST_F(WebSocketServerTest, SendersInterleaveWholeMessagesAndWaitForTheReader) {
  std::atomic<std::size_t> sent = 0;
  serve([&](Exchange& exchange) { return send_from_all(exchange, sent); });
  TextPeer peer = open();
  // 10 MB wait for a reader that does not read: the senders must be suspended, all of them.
  std::size_t last = 0;
  int unchanged = 0;
  ASSERT_TRUE(thread_.eventually([&] {
    unchanged = std::exchange(last, sent.load()) == sent ? unchanged + 1 : 0;
    return unchanged > 50;
  }));
  EXPECT_LT(sent * 50'000, 8U << 20);
  std::size_t messages = 0;
  for (;;) {
    const std::string header = peer.read_exactly(2);
    ASSERT_EQ(header.size(), 2U);
    if (header[0] == '\x88') break;
    ASSERT_EQ(to_hex(header), "817e");
    ASSERT_EQ(to_hex(peer.read_exactly(2)), "c350");  // 50,000
    const std::string payload = peer.read_exactly(50'000);
    ASSERT_EQ(payload, std::string(50'000, payload.front())) << "two messages were mixed";
    ++messages;
  }
  EXPECT_EQ(messages, kSenders * kMessagesEach);
}

constexpr std::size_t kLongMessageBytes = 32 << 20;

Task<> send_long(WebSocket& socket) {
  expect_ok(co_await socket.send_binary(std::string(kLongMessageBytes, 'l')));
}

Task<> send_long_and_receive(Exchange& exchange) {
  auto socket = std::move(*co_await exchange.accept_websocket());
  linux::TaskGroup sender(exchange.loop());
  sender.spawn(send_long(*socket));
  const auto end = co_await socket->receive(exchange.loop().now() + kPatience);
  EXPECT_TRUE(end.has_value() && !*end) << "the peer closes";
}

TEST_F(WebSocketServerTest, CloseIsAnsweredBehindTheMessageThatIsBeingSent) {
  serve(send_long_and_receive);
  TextPeer peer = open();
  // The message is longer than what the kernel holds, so it is under way when the close arrives.
  expect(peer, "\x82\x7f"s);
  peer.send(from_client(WebSocketEventKind::kClose, "", 1000));
  peer.read_exactly(8 + kLongMessageBytes);
  EXPECT_EQ(to_hex(peer.read_to_end()), to_hex(from_server(WebSocketEventKind::kClose, "", 1000)));
}

Task<> cancel_a_send(Exchange& exchange, std::promise<Result<void>>& later) {
  auto socket = std::move(*co_await exchange.accept_websocket());
  const auto cut = co_await linux::within(exchange.loop(), exchange.loop().now() + milliseconds(20),
                                          socket->send_text(std::string(32 << 20, 'x')));
  EXPECT_FALSE(cut.has_value()) << "the reader does not read";
  later.set_value(co_await socket->send_text("after"));
}

TEST_F(WebSocketServerTest, NothingIsSentBehindAMessageThatWasCutOff) {
  std::promise<Result<void>> later;
  serve([&](Exchange& exchange) { return cancel_a_send(exchange, later); });
  TextPeer peer = open();
  const auto result = later.get_future().get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
}

Task<> receive_after_cancelling(Exchange& exchange) {
  auto socket = std::move(*co_await exchange.accept_websocket());
  EXPECT_FALSE(co_await linux::within(exchange.loop(), exchange.loop().now() + milliseconds(5),
                                      socket->receive(kNever)));
  const auto late = co_await socket->receive(exchange.loop().now() + milliseconds(5));
  EXPECT_EQ(late ? ErrorCode::kInternal : late.error().code, ErrorCode::kTimeout);
  expect_ok(co_await socket->send_text("now"));
  const auto message = co_await socket->receive(exchange.loop().now() + kPatience);
  EXPECT_TRUE(message && *message && (*message)->payload == "hello");
  expect_ok(co_await socket->send_text("got it"));
}

TEST_F(WebSocketServerTest, ReceiveCanBeCancelledAndCalledAgain) {
  serve(receive_after_cancelling);
  TextPeer peer = open();
  expect(peer, from_server(WebSocketEventKind::kText, "now"));
  peer.send(from_client(WebSocketEventKind::kText, "hello"));
  expect(peer, from_server(WebSocketEventKind::kText, "got it"));
}

// ---- two that are carried to each other

// Waits for one message while the other side speaks until `spoke_for` is over and then falls
// silent.
Task<> hear_beside_another(Exchange& exchange, Duration spoke_for,
                           std::promise<Duration>& given_up) {
  constexpr Duration kLongest = milliseconds(50);
  auto socket = std::move(*co_await exchange.accept_websocket());
  linux::Loop& loop = exchange.loop();
  const TimePoint begin = loop.now();
  Silence silence{loop, kLongest, begin};
  linux::TaskGroup other(loop);
  other.spawn([](linux::Loop& clock, Silence& shared, TimePoint until) -> Task<> {
    while (clock.now() < until) {
      shared.since = clock.now();
      co_await clock.sleep_until(clock.now() + milliseconds(5));
    }
  }(loop, silence, begin + spoke_for));
  while (const auto message = co_await next_message(*socket, silence))
    expect_ok(co_await pass_on(*message, *socket));
  given_up.set_value(loop.now() - begin);
}

class SilenceTest : public WebSocketServerTest {
 protected:
  ~SilenceTest() override { stop(); }
  void serve_beside_another(Duration spoke_for) {
    serve([this, spoke_for](Exchange& exchange) {
      return hear_beside_another(exchange, spoke_for, given_up_);
    });
  }
  std::promise<Duration> given_up_;
};

TEST_F(SilenceTest, EndsThePairWhenNeitherSideSpeaks) {
  serve_beside_another(Duration::zero());
  TextPeer peer = open();
  EXPECT_GE(given_up_.get_future().get(), milliseconds(50));
}

TEST_F(SilenceTest, OfOneSideIsNoneWhileTheOtherSpeaks) {
  serve_beside_another(milliseconds(200));
  TextPeer peer = open();
  EXPECT_GE(given_up_.get_future().get(), milliseconds(240));
}

TEST_F(SilenceTest, MessagesKeepTheirKind) {
  serve_beside_another(milliseconds(200));
  TextPeer peer = open();
  for (const auto kind : {WebSocketEventKind::kText, WebSocketEventKind::kBinary}) {
    peer.send(from_client(kind, "as it is"));
    expect(peer, from_server(kind, "as it is"));
  }
  peer.send(from_client(WebSocketEventKind::kClose, "", 1000));
  given_up_.get_future().get();
}

// ---- our client

Task<Result<std::string>> converse(Client& client) {
  CO_TRY(auto socket, co_await client.open_websocket("/", {{"X-Token", "t"}}));
  std::string heard;
  for (const std::size_t size : {5, 70'000}) {
    CO_TRY_VOID(co_await socket->ping("still there?"));
    CO_TRY_VOID(co_await socket->send_text(std::string(size, 'm')));
    CO_TRY(auto message, co_await socket->receive(kNever));
    if (message) heard += std::to_string(message->payload.size()) + " ";
  }
  CO_TRY_VOID(co_await socket->close(1000, "bye"));
  CO_TRY(const auto end, co_await socket->receive(kNever));
  heard += end ? "message" : "closed " + std::to_string(socket->close_code());
  EXPECT_FALSE(co_await socket->send_text("late"));
  co_return heard;
}

TEST_F(WebSocketServerTest, ClientAndServerOfOursUnderstandEachOther) {
  serve_echo();
  std::unique_ptr<Client> client;
  thread_.call([&] {
    client = std::make_unique<Client>(thread_.loop(),
                                      tcp_connector(thread_.loop(), "127.0.0.1", port_), "origin");
  });
  const auto heard = thread_.await([&] { return converse(*client); });
  ASSERT_TRUE(heard.has_value()) << heard.error().describe();
  EXPECT_EQ(*heard, "5 70000 closed 1000");
  EXPECT_EQ(ended().close_code, 1000);
  thread_.call([&] { client.reset(); });
}

class WebSocketClientTest : public ::testing::Test {
 protected:
  ~WebSocketClientTest() override {
    thread_.call([this] { client_.reset(); });
  }
  static Task<Result<std::string>> hear_one(Client& client) {
    CO_TRY(auto socket, co_await client.open_websocket("/chat"));
    CO_TRY(auto message, co_await socket->receive(kNever));
    co_return message ? message->payload : "closed " + std::to_string(socket->close_code());
  }
  std::future<Result<std::string>> start() {
    thread_.call([&] {
      client_ = std::make_unique<Client>(
          thread_.loop(), tcp_connector(thread_.loop(), "127.0.0.1", origin_.port()), "origin");
    });
    return thread_.start([&] { return hear_one(*client_); });
  }
  // The answer to the request that the server got.
  static std::string upgrade_for(const std::string& request) {
    constexpr std::string_view kKey = "Sec-WebSocket-Key: ";
    const std::string key = request.substr(request.find(kKey) + kKey.size(), 24);
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Accept: " +
           websocket_accept_key(key) + "\r\n";
  }

  LoopThread thread_;
  TextListener origin_;
  std::unique_ptr<Client> client_;
};

TEST_F(WebSocketClientTest, MessageThatCameWithTheHandshakeIsNotLost) {
  auto running = start();
  TextPeer server = origin_.accept();
  const std::string request = server.read_until("\r\n\r\n");
  EXPECT_TRUE(request.starts_with("GET /chat HTTP/1.1\r\n")) << request;
  server.send(upgrade_for(request) + "\r\n" + from_server(WebSocketEventKind::kText, "welcome"));
  EXPECT_EQ(*thread_.finish(std::move(running)), "welcome");
}

TEST_F(WebSocketClientTest, ServersCloseIsAnswered) {
  auto running = start();
  TextPeer server = origin_.accept();
  server.send(upgrade_for(server.read_until("\r\n\r\n")) + "\r\n" +
              from_server(WebSocketEventKind::kClose, "", 1011));
  EXPECT_EQ(*thread_.finish(std::move(running)), "closed 1011");
  const std::string close = server.read_to_end();
  ASSERT_EQ(close.size(), 8U);
  EXPECT_EQ(to_hex(close.substr(0, 2)), "8882") << "a masked close with a code";
}

TEST_F(WebSocketClientTest, MaskedFrameFromAServerIsRefused) {
  auto running = start();
  TextPeer server = origin_.accept();
  server.send(upgrade_for(server.read_until("\r\n\r\n")) + "\r\n" +
              from_client(WebSocketEventKind::kText, "wrong"));
  EXPECT_EQ(to_hex(server.read_exactly(1)), "88");
  server.close();
  EXPECT_EQ(thread_.finish(std::move(running)).error().code, ErrorCode::kInvalid);
}

TEST_F(WebSocketClientTest, AnswersThatAreNoUpgradeAreRefused) {
  const auto refused = [this](const std::function<std::string(std::string)>& answer) {
    auto running = start();
    TextPeer server = origin_.accept();
    server.send(answer(server.read_until("\r\n\r\n")) + "\r\n");
    const auto result = thread_.finish(std::move(running));
    EXPECT_EQ(server.ending(), Ending::kClosed);
    return !result && result.error().code == ErrorCode::kInvalid;
  };
  EXPECT_TRUE(refused(
      [](const std::string&) { return "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n"s; }));
  EXPECT_TRUE(refused([](const std::string&) {
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"s;
  })) << "the answer to another key";
  EXPECT_TRUE(refused([](const std::string& request) {
    return upgrade_for(request) + "Sec-WebSocket-Extensions: permessage-deflate\r\n";
  })) << "an extension nobody offered";
}

}  // namespace
}  // namespace pons::http
