// What a proxy needs of TLS: certificates from memory, greetings that were read before, one answer
// about the protocol, sessions that stay apart, and no trust in itself.

#include <sys/ioctl.h>

#include <fstream>

#include <openssl/err.h>

#include "pons/http/client_hello.h"
#include "tls_fixture.h"

namespace pons::http {
namespace {

using std::chrono::milliseconds;
using Connected = Result<std::unique_ptr<TlsTransport>>;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_protocols(std::string_view offer, RawTls& raw) {
  SSL_set_alpn_protos(raw.ssl(), reinterpret_cast<const unsigned char*>(offer.data()),
                      static_cast<unsigned>(offer.size()));
  if (!raw.connect()) return "refused";
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(raw.ssl(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

class TlsProxyTest : public ::testing::Test {
 protected:
  ~TlsProxyTest() override {
    thread_.call([this] { kept_.clear(); });
  }

  static std::shared_ptr<const TlsIdentity> identity(const std::string& name = "server") {
    const TempDir& dir = authority().dir;
    auto made = TlsIdentity::from_pem(read_text(dir.file(name + ".crt")),
                                      read_text(dir.file(name + ".key")));
    EXPECT_TRUE(made.has_value()) << made.error().describe();
    return std::move(*made);
  }
  static std::shared_ptr<TlsContext> bare_server() {
    return std::move(*TlsContext::create_server());
  }

  // The next client of the listener, accepted by ours.
  std::future<Connected> start_accept(TextPeer& socket, TlsAccept how) {
    return thread_.start([&] {
      return accept_tls(thread_.loop(), std::move(*linux::duplicate(socket.fd())), std::move(how),
                        deadline());
    });
  }
  std::future<Connected> start_connect(TlsConnect how) {
    return thread_.start([&] {
      return connect_tls(thread_.loop(), TextPeer::connect_tcp(listener_.port()).release(),
                         std::move(how), deadline());
    });
  }
  TimePoint deadline() { return thread_.loop().now() + kPatience; }
  // Transports are used and destroyed on the loop's thread.
  TlsTransport* keep(Connected connected) {
    EXPECT_TRUE(connected.has_value()) << connected.error().describe();
    if (!connected) return nullptr;
    return thread_.call([&] { return kept_.emplace_back(std::move(*connected)).get(); });
  }
  Result<std::size_t> read(TlsTransport* transport, std::span<char> into) {
    return thread_.await([&] { return read_some(*transport, into, deadline()); });
  }
  std::string read_text_from(TlsTransport* transport) {
    char text[100];
    const auto got = read(transport, text);
    return got ? std::string(text, *got) : got.error().describe();
  }
  void write(TlsTransport* transport, std::string_view text) {
    iovec piece = to_iovec(text);
    expect_ok(thread_.await([&] { return write_all(*transport, {&piece, 1}, kPatience); }));
  }

  LoopThread thread_;
  TextListener listener_;
  std::vector<std::unique_ptr<TlsTransport>> kept_;
};

// ---- accepting

TEST_F(TlsProxyTest, GreetingThatWasReadBeforeIsStillAnswered) {
  auto client = std::async([this] {
    RawTls raw = RawTls::client(TextPeer::connect_tcp(listener_.port()));
    SSL_set_tlsext_host_name(raw.ssl(), "pons.test");
    EXPECT_TRUE(raw.connect());
    raw.send("ping");
    return raw.read_until("pong");
  });
  TextPeer socket = listener_.accept();
  std::string seen;
  while (!std::holds_alternative<ClientHello>(parse_client_hello(seen)))
    seen += socket.read_exactly(1);
  EXPECT_EQ(std::get<ClientHello>(parse_client_hello(seen)).server_name, "pons.test");
  TlsTransport* ours = keep(thread_.finish(start_accept(
      socket,
      {.context = bare_server(), .identity = identity(), .first_bytes = seen, .protocol = ""})));
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(read_text_from(ours), "ping");
  write(ours, "pong");
  EXPECT_EQ(client.get(), "pong");
}

TEST_F(TlsProxyTest, ClientGetsExactlyTheProtocolThatWasChosen) {
  const struct {
    std::string_view offer;
    std::optional<std::string> answer;
    std::string expected;
  } cases[] = {
      {"\x02h2\x08http/1.1", "h2", "h2"},
      {"\x02h2\x08http/1.1", "http/1.1", "http/1.1"},
      {"\x02h2\x08http/1.1", "", ""},
      {"\x02h2", "http/1.1", "refused"},
      {"\x02h3\x02h2", std::nullopt, "refused"},
      {"", "h2", ""},
  };
  const auto context = bare_server();
  for (const auto& one : cases) {
    auto client = std::async([&] {
      RawTls raw = RawTls::client(TextPeer::connect_tcp(listener_.port()));
      return with_protocols(one.offer, raw);
    });
    TextPeer socket = listener_.accept();
    auto accepted = thread_.finish(start_accept(
        socket,
        {.context = context, .identity = identity(), .first_bytes = {}, .protocol = one.answer}));
    EXPECT_EQ(accepted.has_value(), one.expected != "refused");
    if (accepted) {
      EXPECT_EQ(keep(std::move(accepted))->protocol(), one.expected);
    }
    socket.finish_sending();
    EXPECT_EQ(client.get(), one.expected);
  }
}

TEST_F(TlsProxyTest, NothingIsAcceptedWithoutAnIdentity) {
  auto client = std::async(
      [this] { return RawTls::client(TextPeer::connect_tcp(listener_.port())).connect(); });
  TextPeer socket = listener_.accept();
  EXPECT_FALSE(thread_.finish(start_accept(socket, {.context = bare_server()})));
  socket.finish_sending();
  EXPECT_FALSE(client.get());
}

TEST_F(TlsProxyTest, ClientsCannotResumeWithAServerThatRemembersNothing) {
  const auto context = bare_server();
  UniqueContext client_context(SSL_CTX_new(TLS_client_method()));
  std::unique_ptr<SSL_SESSION, NativeDeleter<SSL_SESSION_free>> session;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION, TLS1_2_VERSION}) {
    auto client = std::async([&] {
      SSL_CTX_up_ref(client_context.get());
      RawTls raw(TextPeer::connect_tcp(listener_.port()), UniqueContext(client_context.get()));
      SSL_set_max_proto_version(raw.ssl(), version);
      if (session != nullptr) SSL_set_session(raw.ssl(), session.get());
      EXPECT_TRUE(raw.connect());
      EXPECT_EQ(raw.read_until("!"), "!");
      EXPECT_EQ(SSL_session_reused(raw.ssl()), 0);
      session.reset(SSL_get1_session(raw.ssl()));
      EXPECT_EQ(SSL_SESSION_has_ticket(session.get()), 0);
    });
    TextPeer socket = listener_.accept();
    write(keep(thread_.finish(start_accept(socket, {.context = context, .identity = identity()}))),
          "!");
    client.get();
  }
}

TEST_F(TlsProxyTest, AlertTellsTheClientWhyItIsTurnedAway) {
  for (const auto& [alert, reason] :
       {std::pair{TlsAlert::kAccessDenied, SSL_R_TLSV1_ALERT_ACCESS_DENIED},
        std::pair{TlsAlert::kUnrecognizedName, SSL_R_TLSV1_UNRECOGNIZED_NAME}}) {
    auto client = std::async([this] {
      RawTls raw = RawTls::client(TextPeer::connect_tcp(listener_.port()));
      EXPECT_FALSE(raw.connect());
      const int why = ERR_GET_REASON(ERR_peek_error());
      ERR_clear_error();
      return why;
    });
    TextPeer socket = listener_.accept();
    socket.read_exactly(5);
    socket.send(tls_alert_record(alert));
    socket.finish_sending();
    EXPECT_EQ(client.get(), reason);
  }
}

// ---- connecting

TEST_F(TlsProxyTest, ProtocolOfTheOriginIsKnownAndEmptyWhenItChoseNone) {
  for (const bool answers : {true, false}) {
    auto connecting = start_connect(
        {.context = authority().client(), .host = "pons.test", .protocols = {"h2", "http/1.1"}});
    RawTls origin = RawTls::server(listener_.accept());
    if (answers)
      SSL_CTX_set_alpn_select_cb(
          SSL_get_SSL_CTX(origin.ssl()),
          [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char*, unsigned,
             void*) {
            *out = reinterpret_cast<const unsigned char*>("h2");
            *size = 2;
            return SSL_TLSEXT_ERR_OK;
          },
          nullptr);
    ASSERT_TRUE(origin.accept());
    EXPECT_STREQ(SSL_get_servername(origin.ssl(), TLSEXT_NAMETYPE_host_name), "pons.test");
    EXPECT_EQ(keep(thread_.finish(std::move(connecting)))->protocol(), answers ? "h2" : "");
  }
}

TEST_F(TlsProxyTest, ProtocolThatWasNotOfferedIsRefused) {
  auto connecting = start_connect(
      {.context = authority().client(), .host = "pons.test", .protocols = {"http/1.1"}});
  RawTls origin = RawTls::server(listener_.accept());
  SSL_CTX_set_alpn_select_cb(
      SSL_get_SSL_CTX(origin.ssl()),
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char*, unsigned,
         void*) {
        *out = reinterpret_cast<const unsigned char*>("h2");
        *size = 2;
        return SSL_TLSEXT_ERR_OK;
      },
      nullptr);
  origin.accept();
  EXPECT_FALSE(thread_.finish(std::move(connecting)));
}

// The root is trusted here, as a system would trust it into which somebody had put it.
TEST_F(TlsProxyTest, ChainThatEndsInAForbiddenAuthorityIsRefused) {
  const TempDir& dir = authority().dir;
  const auto connect = [&](const std::string& forbidden) {
    auto context = TlsContext::create_client(
        TlsTrust{.authority_file = dir.file("root.crt"), .forbidden = forbidden});
    EXPECT_TRUE(context.has_value());
    auto connecting = start_connect({.context = std::move(*context), .host = "pons.test"});
    RawTls origin = RawTls::server(listener_.accept());
    origin.accept();
    return thread_.finish(std::move(connecting));
  };
  keep(connect(read_text(dir.file("self.crt"))));
  const auto refused = connect(read_text(dir.file("self.crt")) + read_text(dir.file("root.crt")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
  EXPECT_TRUE(refused.error().message.contains("rejected")) << refused.error().describe();
}

TEST_F(TlsProxyTest, GarbageForAForbiddenAuthorityIsAnError) {
  EXPECT_FALSE(TlsContext::create_client(
      TlsTrust{.authority_file = authority().dir.file("root.crt"),
               .forbidden = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}));
}

TEST_F(TlsProxyTest, NamesThatCannotBeCheckedAreRefused) {
  for (const std::string& host : {std::string(), std::string("pons.test\0.evil.test", 20)}) {
    auto connecting = start_connect({.context = authority().client(), .host = host});
    EXPECT_FALSE(thread_.finish(std::move(connecting)));
  }
}

// ---- sessions

TEST_F(TlsProxyTest, SessionsAreResumedUnderTheSameKeyOnly) {
  const SystemClock clock;
  const auto sessions = std::make_shared<TlsSessions>(clock);
  const auto context = authority().client();
  const TempDir& dir = authority().dir;
  const auto server =
      std::move(*TlsContext::create_server(dir.file("server.crt"), dir.file("server.key")));
  const auto resumes = [&](const std::string& key, const std::string& host) {
    auto connecting =
        start_connect({.context = context, .host = host, .sessions = sessions, .session_key = key});
    TextPeer socket = listener_.accept();
    auto accepting = start_accept(socket, {.context = server});
    TlsTransport* theirs = keep(thread_.finish(std::move(accepting)));
    TlsTransport* ours = keep(thread_.finish(std::move(connecting)));
    write(theirs, "!");  // a client sees its tickets when it reads
    EXPECT_EQ(read_text_from(ours), "!");
    return ours->was_resumed();
  };
  EXPECT_FALSE(resumes("sandbox-1", "pons.test"));
  EXPECT_TRUE(resumes("sandbox-1", "pons.test"));
  EXPECT_FALSE(resumes("sandbox-2", "pons.test"));
  EXPECT_FALSE(resumes("sandbox-1", "127.0.0.1"));
  EXPECT_TRUE(resumes("sandbox-2", "pons.test"));
}

TlsSessions::Session empty_session(int version = TLS1_2_VERSION) {
  TlsSessions::Session session(SSL_SESSION_new());
  SSL_SESSION_set_protocol_version(session.get(), version);
  const unsigned char id[] = "id";
  SSL_SESSION_set1_id(session.get(), id, 2);
  SSL_SESSION_set_cipher(session.get(), [] {
    static const UniqueContext context(SSL_CTX_new(TLS_client_method()));
    return sk_SSL_CIPHER_value(SSL_CTX_get_ciphers(context.get()), 0);
  }());
  return session;
}

TEST(TlsSessions, OnlyTheKeysUsedLastAreKept) {
  const ManualClock clock;
  TlsSessions sessions(clock, {.count = 3});
  for (int i = 0; i < 1000; ++i) sessions.remember(std::to_string(i), empty_session());
  EXPECT_EQ(sessions.size(), 3u);
  EXPECT_EQ(sessions.take("996"), nullptr);
  EXPECT_NE(sessions.take("997"), nullptr);
  EXPECT_NE(sessions.take("999"), nullptr);
}

TEST(TlsSessions, OldAndOversizedOnesAreNotHandedOut) {
  ManualClock clock;
  TlsSessions sessions(clock, {.age = std::chrono::minutes(10)});
  sessions.remember("a", empty_session());
  clock.advance(std::chrono::minutes(11));
  EXPECT_EQ(sessions.take("a"), nullptr);
  EXPECT_EQ(sessions.size(), 0u);
  TlsSessions small(clock, {.session_bytes = 10});
  small.remember("a", empty_session());
  EXPECT_EQ(small.size(), 0u);
}

TEST(TlsSessions, TicketOfTls13IsUsedOnce) {
  const ManualClock clock;
  TlsSessions sessions(clock);
  sessions.remember("a", empty_session(TLS1_3_VERSION));
  EXPECT_NE(sessions.take("a"), nullptr);
  EXPECT_EQ(sessions.take("a"), nullptr);
}

// ---- streams

class TlsStreamTest : public TlsProxyTest {
 protected:
  // Ours connects to OpenSSL on the test's thread.
  void connect() {
    auto connecting = start_connect({.context = authority().client(), .host = "pons.test"});
    origin_.emplace(RawTls::server(listener_.accept()));
    ASSERT_TRUE(origin_->accept());
    ours_ = keep(thread_.finish(std::move(connecting)));
    ASSERT_NE(ours_, nullptr);
  }
  std::optional<RawTls> origin_;
  TlsTransport* ours_ = nullptr;
};

TEST_F(TlsStreamTest, OneReadTakesManyRecords) {
  connect();
  const std::string block(16 * 1024, 'r');
  for (int i = 0; i < 3; ++i) origin_->send(block);
  // All of it is in the socket before the first read.
  int waiting = 0;
  ASSERT_TRUE(thread_.eventually([&] {
    ioctl(ours_->fd(), FIONREAD, &waiting);
    return waiting > 3 * 16 * 1024;
  }));
  std::vector<char> into(64 * 1024);
  EXPECT_EQ(thread_.call([&] { return ours_->try_read(into).bytes; }), 3 * block.size());
  EXPECT_FALSE(thread_.call([&] { return ours_->has_buffered_input(); }));
}

TEST_F(TlsStreamTest, SmallPiecesTravelInOneRecord) {
  connect();
  std::string head = "5\r\n", body = "hello", end = "\r\n";
  const iovec pieces[] = {to_iovec(head), to_iovec(""), to_iovec(body), to_iovec(end)};
  EXPECT_EQ(thread_.call([&] { return ours_->try_write(pieces).bytes; }), 10u);
  char text[100];
  ASSERT_EQ(SSL_read(origin_->ssl(), text, sizeof text), 10);
  EXPECT_EQ(std::string_view(text, 10), "5\r\nhello\r\n");
}

TEST_F(TlsStreamTest, PiecesOfAllSizesArriveInOrderWhileThePeerIsSlow) {
  connect();
  std::string sent;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 600; ++i)
    texts.emplace_back(i * 97 % 40'000, static_cast<char>('a' + i % 26));
  std::vector<iovec> pieces;
  for (const auto& text : texts) {
    sent += text;
    pieces.push_back(to_iovec(text));
  }
  auto writing = thread_.start([&] { return write_all(*ours_, pieces, kPatience); });
  std::string got;
  std::vector<char> into(3000);
  while (got.size() < sent.size()) {
    const int size = SSL_read(origin_->ssl(), into.data(), static_cast<int>(into.size()));
    ASSERT_GT(size, 0);
    got.append(into.data(), static_cast<std::size_t>(size));
  }
  expect_ok(thread_.finish(std::move(writing)));
  EXPECT_TRUE(got == sent);
}

TEST_F(TlsStreamTest, DataBeforeACutIsHandedOutAndThenTheCut) {
  connect();
  origin_->send("last words");
  origin_->peer().finish_sending();  // no closing notice
  EXPECT_EQ(read_text_from(ours_), "last words");
  char text[10];
  EXPECT_FALSE(read(ours_, text));
}

TEST_F(TlsStreamTest, HalfClosedStreamStillReads) {
  connect();
  expect_ok(thread_.await([&] { return finish_writing(*ours_, kPatience); }));
  EXPECT_EQ(origin_->read_until("never"), "");
  EXPECT_EQ(SSL_get_shutdown(origin_->ssl()), SSL_RECEIVED_SHUTDOWN);
  origin_->send("answer");
  EXPECT_EQ(read_text_from(ours_), "answer");
  SSL_shutdown(origin_->ssl());
  EXPECT_EQ(read_text_from(ours_), "");
}

Task<Result<void>> write_and_finish(TlsTransport& transport, std::string_view text) {
  iovec piece = to_iovec(text);
  CO_TRY_VOID(co_await write_all(transport, {&piece, 1}, kPatience));
  co_return co_await finish_writing(transport, kPatience);
}

TEST_F(TlsStreamTest, ClosingNoticeArrivesBehindMoreThanTheSocketHolds) {
  connect();
  const std::string flood(8 << 20, 'f');
  auto writing = thread_.start([&] { return write_and_finish(*ours_, flood); });
  std::size_t got = 0;
  std::vector<char> into(16 * 1024);
  for (int size; (size = SSL_read(origin_->ssl(), into.data(), static_cast<int>(into.size()))) > 0;)
    got += static_cast<std::size_t>(size);
  expect_ok(thread_.finish(std::move(writing)));
  EXPECT_EQ(got, flood.size());
  EXPECT_EQ(SSL_get_shutdown(origin_->ssl()), SSL_RECEIVED_SHUTDOWN);
}

// A record that was begun and not sent cannot be followed by a notice that all was sent.
TEST_F(TlsStreamTest, StreamThatStopsInTheMiddleIsNotClosedWell) {
  connect();
  const std::string block(16 * 1024, 'f');
  iovec piece = to_iovec(block);
  ASSERT_TRUE(thread_.eventually(
      [&] { return ours_->try_write({&piece, 1}).state == IoOutcome::State::kWantWrite; }));
  EXPECT_FALSE(thread_.await([&] { return finish_writing(*ours_, milliseconds(20)); }));
  thread_.call([this] { kept_.clear(); });
  std::vector<char> into(16 * 1024);
  while (SSL_read(origin_->ssl(), into.data(), static_cast<int>(into.size())) > 0) {
  }
  EXPECT_EQ(SSL_get_shutdown(origin_->ssl()) & SSL_RECEIVED_SHUTDOWN, 0);
}

TEST_F(TlsStreamTest, NewKeysOnRequestDoNotDisturbTheStream) {
  connect();
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(SSL_key_update(origin_->ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    origin_->send("ping");
    EXPECT_EQ(read_text_from(ours_), "ping");
    write(ours_, "pong");
    EXPECT_EQ(origin_->read_until("pong"), "pong");
  }
}

TEST_F(TlsStreamTest, PeerThatOnlyEverChangesKeysIsGivenUp) {
  connect();
  for (int i = 0; i < 40; ++i) {
    SSL_key_update(origin_->ssl(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(origin_->ssl());
  }
  origin_->send("!");
  int waiting = 0;
  ASSERT_TRUE(thread_.eventually([&] {
    ioctl(ours_->fd(), FIONREAD, &waiting);
    return waiting > 40 * 20;
  }));
  char text[10];
  EXPECT_FALSE(read(ours_, text));
}

// The answer to a request for new keys has no way out while the peer takes nothing. Reading then
// must not wait for room as well: one coroutine already does.
TEST_F(TlsStreamTest, RequestForNewKeysByAPeerThatReadsNothingEndsTheConnection) {
  connect();
  SSL_key_update(origin_->ssl(), SSL_KEY_UPDATE_REQUESTED);
  origin_->send("first");
  EXPECT_EQ(read_text_from(ours_), "first");
  const std::string flood(32 << 20, 'f');
  iovec piece = to_iovec(flood);
  auto writing = thread_.start([&] { return write_all(*ours_, {&piece, 1}, milliseconds(300)); });
  for (int i = 0; i < 5; ++i) {
    SSL_key_update(origin_->ssl(), SSL_KEY_UPDATE_REQUESTED);
    origin_->send("more");
  }
  std::vector<char> into(100);
  auto reading = thread_.start([&] { return read_some(*ours_, into, deadline()); });
  EXPECT_FALSE(thread_.finish(std::move(writing)));
  (void)thread_.finish(std::move(reading));
}

}  // namespace
}  // namespace pons::http
