// TLS with certificates made on the spot, against ours and against OpenSSL driven by hand.

#include "pons/http/tls.h"

#include "pons/http/client.h"
#include "pons/http/http2.h"
#include "tls_fixture.h"

namespace pons::http {
namespace {

using std::chrono::milliseconds;

Task<Result<std::string>> fetch(linux::Loop& loop, Connector connector, ClientRequest request,
                                ClientLimits limits) {
  Client client(loop, std::move(connector), "pons.test", limits);
  CO_TRY(ClientResponse response, co_await client.send(std::move(request)));
  co_return co_await response.read_whole_body(64 << 20);
}

Task<> echo(Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(16 << 20);
  exchange.respond({.content_type = "text/plain", .body = body ? std::move(*body) : "error"});
}

class TlsTest : public ServerTest {
 protected:
  std::future<Result<std::string>> start(std::uint16_t port, const std::string& host,
                                         ClientRequest request, ClientLimits limits = {}) {
    return thread_.start([&] {
      return fetch(thread_.loop(),
                   tls_connector(thread_.loop(), "127.0.0.1", port, host, authority().client()),
                   std::move(request), limits);
    });
  }
  Result<std::string> ask(const std::string& host, std::string body = "hello") {
    return thread_.finish(start(port_, host, {.method = "POST", .body = std::move(body)}));
  }
  void expect_denied(const std::string& host, std::string_view because) {
    const auto answer = ask(host);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kDenied) << answer.error().describe();
    EXPECT_TRUE(answer.error().message.contains(because)) << answer.error().describe();
  }
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

// ---- both sides ours

TEST_F(TlsTest, RequestsPassByNameAndByAddress) {
  serve(echo, {}, authority().server());
  for (const auto* host : {"pons.test", "127.0.0.1"}) {
    const auto answer = ask(host);
    ASSERT_TRUE(answer.has_value()) << answer.error().describe();
    EXPECT_EQ(*answer, "hello");
  }
}

TEST_F(TlsTest, MegabytesPassBothWays) {
  serve(echo, {}, authority().server());
  const std::string body(3'000'000, 'b');
  const auto answer = ask("pons.test", body);
  ASSERT_TRUE(answer.has_value()) << answer.error().describe();
  EXPECT_EQ(*answer, body);
}

// ---- HTTP/2, which reads and writes at the same time

Task<> echo_at_once(Exchange& exchange) {
  (void)co_await exchange.start({});
  for (;;) {
    const auto piece = co_await exchange.read_body();
    if (!piece) co_return exchange.abort();
    if (piece->empty()) break;
    if (!co_await exchange.write(*piece)) co_return;
  }
  (void)co_await exchange.finish();
}

Task<> serve_http2_over(linux::Loop& loop, linux::UniqueFd socket) {
  auto transport = co_await accept_tls(
      loop, std::move(socket),
      TlsAccept{
          .context = authority().server(), .identity = {}, .first_bytes = {}, .protocol = "h2"},
      loop.now() + kPatience);
  EXPECT_TRUE(transport.has_value());
  if (transport) co_await serve_http2(loop, std::move(*transport), {}, {}, echo_at_once);
}

Task<Result<std::string>> send_over_http2(linux::Loop& loop, linux::UniqueFd ours,
                                          linux::UniqueFd theirs, std::string body) {
  linux::TaskGroup server(loop);
  server.spawn(serve_http2_over(loop, std::move(theirs)));
  CO_TRY(auto transport, co_await connect_tls(loop, std::move(ours),
                                              TlsConnect{.context = authority().client(),
                                                         .host = "pons.test",
                                                         .protocols = {"h2", "http/1.1"},
                                                         .sessions = {},
                                                         .session_key = {}},
                                              loop.now() + kPatience));
  EXPECT_EQ(transport->protocol(), "h2");
  Http2Client client(loop, std::move(transport), "pons.test");
  CO_TRY(auto response, co_await client.send({.method = "POST", .body = std::move(body)}));
  std::string answer;
  for (;;) {
    CO_TRY(const std::string_view piece, co_await response.read_body());
    if (piece.empty()) co_return answer;
    answer += piece;
  }
}

TEST_F(TlsTest, MegabytesPassBothWaysAtOnceOverHttp2) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const std::string body(3'000'000, 'b');
  const auto answer = thread_.await([&] {
    return send_over_http2(thread_.loop(), linux::UniqueFd(ends[0]), linux::UniqueFd(ends[1]),
                           body);
  });
  ASSERT_TRUE(answer.has_value()) << answer.error().describe();
  EXPECT_TRUE(*answer == body);
}

Task<int> ask_often(linux::Loop& loop, Connector connector) {
  Client client(loop, std::move(connector), "pons.test");
  int answered = 0;
  for (int i = 0; i < 50; ++i) {
    auto response = co_await client.send({.method = "POST", .body = "hello"});
    if (!response) continue;
    const auto body = co_await response->read_whole_body(100);
    if (body && *body == "hello") ++answered;
  }
  co_return answered;
}

TEST_F(TlsTest, ConnectionIsKeptForTheNextRequest) {
  serve(echo, {}, authority().server());
  EXPECT_EQ(thread_.await([&] {
    return ask_often(thread_.loop(), tls_connector(thread_.loop(), "127.0.0.1", port_, "pons.test",
                                                   authority().client()));
  }),
            50);
}

TEST_F(TlsTest, CertificateForAnotherHostIsRefused) {
  serve(echo, {}, authority().server());
  expect_denied("other.test", "hostname mismatch");
  expect_denied("127.0.0.2", "IP address mismatch");
}

TEST_F(TlsTest, CertificateOfAnUnknownAuthorityIsRefused) {
  serve(echo, {}, authority().server("self"));
  expect_denied("pons.test", "self-signed certificate");
}

TEST_F(TlsTest, ExpiredCertificateIsRefused) {
  serve(echo, {}, authority().server("expired"));
  expect_denied("pons.test", "certificate has expired");
}

TEST_F(TlsTest, PlainServerIsNotMistakenForASecureOne) {
  serve(echo);
  EXPECT_FALSE(ask("pons.test"));
}

TEST_F(TlsTest, PlainRequestToASecureServerGetsNothing) {
  serve(echo, {}, authority().server());
  TextPeer peer = dial();
  peer.send(kGet);
  EXPECT_FALSE(peer.read_to_end().contains("HTTP/1.1"));
  EXPECT_TRUE(eventually_has_connections(0));
}

// ---- what the server refuses

TEST_F(TlsTest, OldProtocolVersionsAreRefused) {
  serve(echo, {}, authority().server());
  RawTls old = RawTls::client(dial());
  SSL_set_cipher_list(old.ssl(), "ALL:@SECLEVEL=0");
  SSL_set_min_proto_version(old.ssl(), TLS1_VERSION);
  SSL_set_max_proto_version(old.ssl(), TLS1_1_VERSION);
  EXPECT_FALSE(old.connect());
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    RawTls good = RawTls::client(dial());
    SSL_set_min_proto_version(good.ssl(), version);
    SSL_set_max_proto_version(good.ssl(), version);
    ASSERT_TRUE(good.connect());
    good.send(kGet);
    EXPECT_TRUE(good.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
}

TEST_F(TlsTest, ClientThatOffersOnlyOtherProtocolsIsRefused) {
  serve(echo, {}, authority().server());
  const auto offers = [this](std::string_view protocols) {
    RawTls raw = RawTls::client(dial());
    SSL_set_alpn_protos(raw.ssl(), reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
    return raw.connect();
  };
  EXPECT_FALSE(offers("\x02h2"));
  EXPECT_TRUE(offers("\x02h2\x08http/1.1"));
}

TEST_F(TlsTest, StalledHandshakeEndsAtItsDeadline) {
  serve(echo, {.header_time = milliseconds(50)}, authority().server());
  TextPeer silent = dial();
  EXPECT_EQ(silent.ending(), Ending::kClosed);
  TextPeer begun = dial();
  begun.send("\x16\x03\x01\x02");
  EXPECT_EQ(begun.ending(), Ending::kClosed);
  EXPECT_TRUE(eventually_has_connections(0));
}

TEST_F(TlsTest, ClientGivesUpAStalledHandshake) {
  TextListener origin;
  auto running = start(origin.port(), "pons.test", {}, {.connect_time = milliseconds(50)});
  const TextPeer server = origin.accept();
  EXPECT_EQ(thread_.finish(std::move(running)).error().code, ErrorCode::kTimeout);
}

// ---- bytes whose event is past

// TLS 1.3 lets a client send its first request together with the end of its handshake.
TEST_F(TlsTest, RequestInTheSameSegmentAsTheHandshakeIsAnswered) {
  serve(echo, {}, authority().server());
  TextPeer peer = dial();
  const UniqueContext context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  const UniqueSsl ssl(SSL_new(context.get()));
  // The client works in memory, so that the test decides what travels together.
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), in, out);
  const auto flush = [&] {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    peer.send({bytes, static_cast<std::size_t>(size)});
    (void)BIO_reset(out);
  };
  const auto take_byte = [&] {
    const std::string byte = peer.read_exactly(1);
    BIO_write(in, byte.data(), static_cast<int>(byte.size()));
    return !byte.empty();
  };
  SSL_connect(ssl.get());
  flush();
  while (SSL_connect(ssl.get()) != 1) ASSERT_TRUE(take_byte());
  // Finished and two requests: three records that raise one event.
  for (int i = 0; i < 2; ++i) SSL_write(ssl.get(), kGet.data(), static_cast<int>(kGet.size()));
  flush();
  for (int answers = 0; answers < 2;) {
    ASSERT_TRUE(take_byte()) << "after " << answers << " answers";
    char piece[4096];
    const int got = SSL_read(ssl.get(), piece, sizeof piece);
    if (got > 0 && std::string_view(piece, static_cast<std::size_t>(got)).contains("200 OK"))
      ++answers;
  }
}

// ---- the end of a stream

TEST_F(TlsTest, StreamWithoutAClosingNoticeIsCutOffAndNotEnded) {
  TextListener origin;
  for (const bool notice : {true, false}) {
    auto running = start(origin.port(), "pons.test", {});
    {
      RawTls server = RawTls::server(origin.accept());
      ASSERT_TRUE(server.accept());
      server.read_until("\r\n\r\n");
      server.send("HTTP/1.1 200 OK\r\n\r\nto the end");
      if (notice) SSL_shutdown(server.ssl());
    }
    const auto body = thread_.finish(std::move(running));
    if (notice) {
      ASSERT_TRUE(body.has_value()) << body.error().describe();
      EXPECT_EQ(*body, "to the end");
    } else {
      ASSERT_FALSE(body);
      EXPECT_EQ(body.error().code, ErrorCode::kUnavailable);
    }
  }
}

TEST_F(TlsTest, ServerEndsItsConnectionsWithAClosingNotice) {
  serve(echo, {.idle_time = milliseconds(50)}, authority().server());
  RawTls closing = RawTls::client(dial());
  ASSERT_TRUE(closing.connect());
  closing.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  RawTls idle = RawTls::client(dial());
  ASSERT_TRUE(idle.connect());
  idle.send(kGet);
  for (RawTls* raw : {&closing, &idle}) {
    EXPECT_TRUE(raw->read_until("never").starts_with("HTTP/1.1 200 "));
    EXPECT_EQ(SSL_get_shutdown(raw->ssl()), SSL_RECEIVED_SHUTDOWN);
  }
}

TEST_F(TlsTest, AbortedAnswerHasNoClosingNotice) {
  const auto abort = [](Exchange& exchange) -> Task<> {
    expect_ok(co_await exchange.start({.content_type = "text/plain"}));
    expect_ok(co_await exchange.write("begun"));
    exchange.abort();
  };
  serve(abort, {}, authority().server());
  RawTls raw = RawTls::client(dial());
  ASSERT_TRUE(raw.connect());
  raw.send(kGet);
  EXPECT_TRUE(raw.read_until("never").ends_with("5\r\nbegun\r\n"));
  EXPECT_EQ(SSL_get_shutdown(raw.ssl()), 0);
}

TEST_F(TlsTest, PeerThatLeavesWhileItIsWrittenToIsNoSignal) {
  const auto flood = [](Exchange& exchange) -> Task<> {
    (void)co_await exchange.start({.content_type = "text/plain"});
    while (co_await exchange.write(std::string(64 * 1024, 'f'))) {
    }
  };
  serve(flood, {}, authority().server());
  RawTls raw = RawTls::client(dial());
  ASSERT_TRUE(raw.connect());
  raw.send(kGet);
  raw.read_until("\r\n\r\n");
  raw.peer().reset();
  EXPECT_TRUE(eventually_has_connections(0));
}

// ---- certificates from files

TEST_F(TlsTest, LiveConnectionsKeepTheContextTheyBeganWith) {
  auto old = authority().server();
  serve(echo, {}, old);
  RawTls live = RawTls::client(dial());
  ASSERT_TRUE(live.connect());
  old.reset();
  // The new context comes with a new listener on the same server.
  const std::uint16_t port = thread_.call([&] { return listen(authority().server("renewed")); });
  RawTls renewed = RawTls::client(TextPeer::connect_tcp(port));
  ASSERT_TRUE(renewed.connect());
  for (RawTls* raw : {&live, &renewed}) {
    raw->send(kGet);
    EXPECT_TRUE(raw->read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  const UniqueCertificate shown(SSL_get1_peer_certificate(renewed.ssl()));
  char name[64];
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name, sizeof name);
  EXPECT_STREQ(name, "renewed");
}

std::string common_name(RawTls& raw) {
  const UniqueCertificate shown(SSL_get1_peer_certificate(raw.ssl()));
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name, sizeof name);
  return name;
}

std::shared_ptr<TlsContext> server_from_memory(const std::string& name) {
  const auto read = [&](const char* ending) {
    return *linux::read_file(authority().dir.file(name + ending), 64 * 1024);
  };
  const auto identity = TlsIdentity::from_pem(read(".crt"), read(".key"));
  EXPECT_TRUE(identity.has_value());
  const auto now = std::time(nullptr);
  const auto validity = (*identity)->validity();
  EXPECT_TRUE(validity && validity->begins_unix < now);
  EXPECT_EQ(name != "expired", validity->ends_unix > now);
  return *TlsContext::create_server(**identity);
}

TEST_F(TlsTest, ReplacedContextGreetsNewConnectionsWhileLiveOnesGoOn) {
  serve(echo, {}, server_from_memory("server"));
  RawTls live = RawTls::client(dial());
  ASSERT_TRUE(live.connect());
  thread_.call([&] { server_->replace_tls("public", server_from_memory("renewed")); });
  RawTls renewed = RawTls::client(dial());
  ASSERT_TRUE(renewed.connect());
  for (RawTls* raw : {&live, &renewed}) {
    raw->send(kGet);
    EXPECT_TRUE(raw->read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  }
  EXPECT_EQ(common_name(live), "pons.test");
  EXPECT_EQ(common_name(renewed), "renewed");
  EXPECT_EQ(thread_.call([] { return server_from_memory("expired") != nullptr; }), true);
}

TEST_F(TlsTest, PlainListenerCannotShareARoleWithASecureOne) {
  serve(echo, {}, authority().server());
  const auto plain = thread_.call(
      [&] { return server_->listen(std::move(*linux::listen_tcp("127.0.0.1", 0)), "public"); });
  EXPECT_FALSE(plain);
}

TEST_F(TlsTest, HandshakesThatTakeTooLongMakeRoomForOthers) {
  serve(echo, {.connections = 2, .header_time = std::chrono::hours(1)}, authority().server());
  TextPeer silent = dial();
  TextPeer slow = dial();
  slow.send("\x16\x03\x01\x02");
  ASSERT_TRUE(eventually_has_connections(2));
  const auto answer = ask("pons.test");
  ASSERT_TRUE(answer.has_value()) << answer.error().describe();
  EXPECT_EQ(*answer, "hello");
  EXPECT_EQ(silent.read_to_end(), "");
}

TEST_F(TlsTest, FilesThatDoNotFitAreRefusedByName) {
  const TempDir& dir = authority().dir;
  const auto missing = TlsContext::create_server(dir.file("none.crt"), dir.file("server.key"));
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.contains("none.crt"));
  const auto mismatch = TlsContext::create_server(dir.file("server.crt"), dir.file("self.key"));
  ASSERT_FALSE(mismatch);
  EXPECT_TRUE(mismatch.error().message.contains("self.key"));
  EXPECT_FALSE(TlsContext::create_client(dir.file("none.crt")));
}

}  // namespace
}  // namespace pons::http
