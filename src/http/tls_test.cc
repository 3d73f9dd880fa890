// TLS with certificates made on the spot, against ours and against OpenSSL driven by hand.

#include "pons/http/tls.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http_fixture.h"
#include "pons/http/client.h"
#include "pons/http/http2.h"

namespace pons::http {
namespace {

using std::chrono::milliseconds;

template <auto Free>
struct Deleter {
  void operator()(auto* object) const { Free(object); }
};
using UniqueKey = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using UniqueCertificate = std::unique_ptr<X509, Deleter<X509_free>>;
using UniqueContext = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using UniqueSsl = std::unique_ptr<SSL, Deleter<SSL_free>>;

struct Identity {
  UniqueKey key{EVP_EC_gen("P-256")};
  UniqueCertificate certificate{X509_new()};
};

void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  ASSERT_NE(extension, nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

enum class Validity : std::uint8_t { kNow, kExpired };

// `issuer` null: signed by itself.
Identity create_identity(const char* name, const char* alternative_names, const Identity* issuer,
                         Validity validity = Validity::kNow) {
  Identity identity;
  X509* certificate = identity.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), issuer == nullptr ? 1 : 2);
  constexpr long kHour = 3600;
  X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate), validity == Validity::kNow ? kHour : -kHour);
  X509_set_pubkey(certificate, identity.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  const Identity& signer = issuer != nullptr ? *issuer : identity;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get()));
  if (issuer == nullptr) add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (alternative_names != nullptr)
    add_extension(certificate, NID_subject_alt_name, alternative_names);
  EXPECT_GT(X509_sign(certificate, signer.key.get(), EVP_sha256()), 0);
  return identity;
}

// Writes name.crt and name.key.
void save(const TempDir& dir, const std::string& name, const Identity& identity) {
  using UniqueFile = std::unique_ptr<FILE, Deleter<fclose>>;
  const UniqueFile certificate(fopen(dir.file(name + ".crt").c_str(), "we"));
  const UniqueFile key(fopen(dir.file(name + ".key").c_str(), "we"));
  EXPECT_EQ(PEM_write_X509(certificate.get(), identity.certificate.get()), 1);
  EXPECT_EQ(
      PEM_write_PrivateKey(key.get(), identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr),
      1);
}

// One set of certificates for all tests of this file.
struct Authority {
  Authority() {
    const Identity root = create_identity("test authority", nullptr, nullptr);
    save(dir, "root", root);
    const char* names = "DNS:pons.test,IP:127.0.0.1";
    save(dir, "server", create_identity("pons.test", names, &root));
    save(dir, "renewed", create_identity("renewed", names, &root));
    save(dir, "expired", create_identity("pons.test", names, &root, Validity::kExpired));
    save(dir, "self", create_identity("pons.test", names, nullptr));
  }
  std::shared_ptr<TlsContext> server(const std::string& name = "server") const {
    auto made = TlsContext::create_server(dir.file(name + ".crt"), dir.file(name + ".key"));
    EXPECT_TRUE(made.has_value()) << made.error().describe();
    return std::move(*made);
  }
  std::shared_ptr<TlsContext> client() const {
    return std::move(*TlsContext::create_client(dir.file("root.crt")));
  }
  TempDir dir;
};

const Authority& authority() {
  static const Authority made;
  return made;
}

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

// OpenSSL on a blocking socket.
class RawTls {
 public:
  RawTls(TextPeer peer, UniqueContext context)
      : peer_(std::move(peer)), context_(std::move(context)) {
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), peer_.fd());
  }
  static RawTls server(TextPeer peer) {
    UniqueContext context(SSL_CTX_new(TLS_server_method()));
    const TempDir& dir = authority().dir;
    SSL_CTX_use_certificate_chain_file(context.get(), dir.file("server.crt").c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), dir.file("server.key").c_str(), SSL_FILETYPE_PEM);
    return RawTls(std::move(peer), std::move(context));
  }
  static RawTls client(TextPeer peer) {
    return RawTls(std::move(peer), UniqueContext(SSL_CTX_new(TLS_client_method())));
  }
  SSL* ssl() { return ssl_.get(); }
  TextPeer& peer() { return peer_; }
  bool connect() { return SSL_connect(ssl_.get()) == 1; }
  bool accept() { return SSL_accept(ssl_.get()) == 1; }
  void send(std::string_view text) {
    EXPECT_EQ(SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
  }
  std::string read_until(std::string_view mark) {
    std::string text;
    char piece[4096];
    while (!text.contains(mark)) {
      const int got = SSL_read(ssl_.get(), piece, sizeof piece);
      if (got <= 0) break;
      text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  TextPeer peer_;
  UniqueContext context_;
  UniqueSsl ssl_;
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
