// Leaves, trust files and TLS together: a server that reads the greeting, signs for the name in it
// and answers, against our own client and the clients that are at hand.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <future>
#include <thread>

#include <openssl/ssl.h>

#include "certificate.h"
#include "egress_fixture.h"
#include "pons/egress/leaf_cache.h"
#include "pons/egress/trust_files.h"
#include "pons/http/client_hello.h"
#include "pons/linux/loop.h"
#include "pons/linux/tcp.h"

namespace pons::egress {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr std::string_view kAnswer =
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

Task<Result<void>> answer(linux::Loop& loop, linux::UniqueFd socket, LeafCache& leaves,
                          std::shared_ptr<http::TlsContext> context) {
  std::string greeting;
  const TimePoint deadline = loop.now() + kPatience;
  {
    CO_TRY(auto watch, linux::Watch::create(loop, socket.get()));
    while (!std::holds_alternative<http::ClientHello>(http::parse_client_hello(greeting))) {
      char piece[4096];
      const ssize_t got = recv(socket.get(), piece, sizeof piece, MSG_DONTWAIT);
      if (got > 0) greeting.append(piece, static_cast<std::size_t>(got));
      if (got == 0) co_return {};
      if (got < 0) co_await watch.readable(deadline);
    }
  }
  const auto hello = std::get<http::ClientHello>(http::parse_client_hello(greeting));
  CO_TRY(auto identity, leaves.find_or_sign(hello.server_name.value_or("127.0.0.1")));
  http::TlsAccept how{.context = std::move(context),
                      .identity = std::move(identity),
                      .first_bytes = std::move(greeting),
                      .protocol = "http/1.1"};
  CO_TRY(auto transport,
         co_await http::accept_tls(loop, std::move(socket), std::move(how), deadline));
  std::string request;
  while (!request.contains("\r\n\r\n")) {
    char piece[4096];
    CO_TRY(const std::size_t got, co_await http::read_some(*transport, piece, deadline));
    if (got == 0) co_return {};
    request.append(piece, got);
  }
  iovec out = http::to_iovec(kAnswer);
  CO_TRY_VOID(co_await http::write_all(*transport, {&out, 1}, kPatience));
  char scratch[4096];
  co_await http::close_gently(*transport, scratch);
  co_return {};
}

Task<> answer_and_ignore(Task<Result<void>> answering) {
  (void)co_await std::move(answering);
}

Task<> serve(linux::Loop& loop, int listener, LeafCache& leaves) {
  auto context = std::move(*http::TlsContext::create_server());
  auto watch = std::move(*linux::Watch::create(loop, listener));
  linux::TaskGroup connections(loop);
  for (;;) {
    linux::UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket)
      connections.spawn(answer_and_ignore(answer(loop, std::move(socket), leaves, context)));
    else
      co_await watch.readable(kNever);
  }
}

struct Ran {
  int status = -1;
  std::string output;
};

Ran run(const std::string& command) {
  FILE* pipe = popen(("(" + command + ") 2>&1 </dev/null").c_str(), "re");
  Ran ran;
  char piece[4096];
  while (const std::size_t got = fread(piece, 1, sizeof piece, pipe)) ran.output.append(piece, got);
  ran.status = pclose(pipe);
  return ran;
}

class InterceptionTest : public ::testing::Test {
 protected:
  InterceptionTest() {
    const auto made = make_trust_files(authority_);
    EXPECT_TRUE(made.has_value()) << made.error().describe();
    write_text(dir_.file("bundle.pem"), made->bundle);
    write_text(dir_.file("ca.pem"), made->authority);
    std::filesystem::create_directory(dir_.file("certs"));
    for (const auto& file : made->files) {
      const std::string name = std::filesystem::path(file.path).filename();
      if (file.path.ends_with(".0"))
        std::filesystem::create_symlink("../ca.pem", dir_.file("certs/" + name));
    }
    loop_->spawn(serve(*loop_, listener_.get(), *leaves_));
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~InterceptionTest() override {
    loop_->stop();
    thread_.join();
  }

  // Replaces the words @PORT, @BUNDLE, @CA and @CERTS, and sets what sandboxes get in their
  // environment.
  Ran run_client(std::string command) {
    const std::pair<std::string, std::string> words[] = {{"@PORT", std::to_string(port_)},
                                                         {"@BUNDLE", dir_.file("bundle.pem")},
                                                         {"@CERTS", dir_.file("certs")},
                                                         {"@CA", dir_.file("ca.pem")}};
    for (const auto& [word, value] : words)
      for (std::size_t at; (at = command.find(word)) != std::string::npos;)
        command.replace(at, word.size(), value);
    std::string environment = "export HOME=" + dir_.path();
    for (const auto& [name, value] :
         trust_environment(dir_.file("bundle.pem"), dir_.file("ca.pem")))
      environment += " " + name + "=" + value;
    return run(environment + "; timeout 20 " + command);
  }

  Result<std::string> connect(const std::string& host, const http::TlsTrust& trust) {
    std::promise<Result<std::string>> done;
    auto told = done.get_future();
    loop_->post([&] { loop_->spawn(greet(host, trust, done)); });
    return told.get();
  }

  Task<> greet(std::string host, http::TlsTrust trust, std::promise<Result<std::string>>& done) {
    auto context = http::TlsContext::create_client(trust);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port_)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    linux::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    http::TlsConnect how{
        .context = std::move(*context), .host = host, .protocols = {"h2", "http/1.1"}};
    auto connected = co_await http::connect_tls(*loop_, std::move(socket), std::move(how),
                                                loop_->now() + kPatience);
    if (connected)
      done.set_value(std::string((*connected)->protocol()));
    else
      done.set_value(connected.error());
  }

  TempDir dir_;
  SystemClock clock_;
  CertificateAuthority authority_ = std::move(*CertificateAuthority::open(dir_.path(), clock_));
  std::unique_ptr<LeafCache> leaves_ = std::move(*LeafCache::create(authority_, clock_));
  linux::UniqueFd listener_ = std::move(*linux::listen_tcp("127.0.0.1", 0));
  std::uint16_t port_ = port_of(listener_.get());
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  std::thread thread_;
};

TEST_F(InterceptionTest, OurOwnClientTrustsItWhenToldTo) {
  const auto protocol = connect("api.example.com", {.authority_file = dir_.file("ca.pem")});
  ASSERT_TRUE(protocol.has_value()) << protocol.error().describe();
  EXPECT_EQ(*protocol, "http/1.1");
  EXPECT_TRUE(connect("127.0.0.1", {.authority_file = dir_.file("ca.pem")}));
}

TEST_F(InterceptionTest, NobodyElseTrustsIt) {
  const auto refused = connect("api.example.com", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
}

// Somebody put the authority among those of the system: as an upstream it is refused all the same.
TEST_F(InterceptionTest, AsAnUpstreamItIsRefusedEvenWhereItIsTrusted) {
  const auto refused = connect("api.example.com", {.authority_file = dir_.file("bundle.pem"),
                                                   .forbidden = authority_.own_pem()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kDenied);
}

TEST_F(InterceptionTest, CommonClientsTrustIt) {
  const std::string resolve =
      "--resolve api.example.com:@PORT:127.0.0.1 https://api.example.com:@PORT/";
  const std::string check =
      "openssl s_client -quiet -verify_return_error -verify_hostname api.example.com "
      "-x509_strict -servername api.example.com -connect 127.0.0.1:@PORT ";
  const std::string request = "printf 'GET / HTTP/1.1\\r\\n\\r\\n' | ";
  const std::string commands[] = {
      "curl -sS " + resolve,
      "curl -sS --cacert @BUNDLE " + resolve,
      "sh -c \"" + request + check + "-CAfile @CA\"",
      "sh -c \"" + request + check + "-no-CAfile -CApath @CERTS\"",
      "python3 -c \"import ssl, socket\n"
      "c = ssl.create_default_context()\n"
      "s = c.wrap_socket(socket.create_connection(('127.0.0.1', @PORT)), "
      "server_hostname='api.example.com')\n"
      "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print(s.recv(1000).decode())\"",
      "node -e \"const s = require('tls').connect({host: '127.0.0.1', port: @PORT, "
      "servername: 'api.example.com'}, () => s.write('GET / HTTP/1.1\\r\\n\\r\\n'))\n"
      "s.on('data', d => console.log(d.toString()))\"",
  };
  for (const auto& command : commands) {
    const Ran ran = run_client(command);
    EXPECT_TRUE(ran.output.contains("hello")) << command << "\n" << ran.output;
    EXPECT_EQ(ran.status, 0) << command;
  }
}

TEST_F(InterceptionTest, ClientsThatWereNotToldRefuseIt) {
  const Ran ran = run_client(
      "env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS --resolve "
      "api.example.com:@PORT:127.0.0.1 https://api.example.com:@PORT/");
  EXPECT_NE(ran.status, 0);
  EXPECT_TRUE(ran.output.contains("certificate")) << ran.output;
}

}  // namespace
}  // namespace pons::egress
