#include "pons/http/tls.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "socket_options.h"

namespace pons::http {

namespace {

using State = IoOutcome::State;

// OpenSSL's error queue is per thread; it is read once per failure and left empty.
std::string take_tls_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  return reason != nullptr ? reason : "connection closed";
}

Error tls_error(const char* step, const std::string& subject = {}) {
  const std::string reason = take_tls_reason();
  return make_error(ErrorCode::kInvalid, step, subject.empty() ? reason : subject + ": " + reason);
}

struct SslDeleter {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
using UniqueSsl = std::unique_ptr<SSL, SslDeleter>;

bool is_numeric_address(const std::string& host) {
  unsigned char ignored[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), ignored) == 1;
}

class TlsTransport final : public Transport {
 public:
  TlsTransport(linux::UniqueFd socket, linux::Watch watch, UniqueSsl ssl,
               std::shared_ptr<TlsContext> context)
      : socket_(std::move(socket)),
        watch_(std::move(watch)),
        context_(std::move(context)),
        ssl_(std::move(ssl)) {}

  IoOutcome try_read(std::span<char> into) override {
    std::size_t got = 0;
    ERR_clear_error();
    const int ok = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    const IoOutcome outcome = ok == 1 ? IoOutcome{.bytes = got} : outcome_of(ok);
    emptied_ = outcome.state == State::kWantRead;
    return outcome;
  }

  IoOutcome try_write(std::span<const iovec> from) override {
    std::size_t sent = 0;
    ERR_clear_error();
    const int ok = SSL_write_ex(ssl_.get(), from.front().iov_base, from.front().iov_len, &sent);
    return ok == 1 ? IoOutcome{.bytes = sent} : outcome_of(ok);
  }

  // One read takes at most one record. The socket may hold more of them, which came with the same
  // event; so may it after a handshake.
  bool has_buffered_input() const override { return !emptied_; }

  void shut_down_writing() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    shutdown(socket_.get(), SHUT_WR);
  }

  linux::Watch& watch() override { return watch_; }
  int fd() const override { return socket_.get(); }

  void begin_accept() { SSL_set_accept_state(ssl_.get()); }

  // Names the host twice: in the greeting (SNI, names only) and for the check of the peer's
  // certificate.
  Result<void> begin_connect(const std::string& host) {
    SSL_set_connect_state(ssl_.get());
    const bool set =
        is_numeric_address(host)
            ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), host.c_str()) == 1
            : SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1 &&
                  SSL_set1_host(ssl_.get(), host.c_str()) == 1;
    if (!set) return tls_error("name the TLS host", host);
    return {};
  }

  IoOutcome try_handshake() {
    ERR_clear_error();
    const int ok = SSL_do_handshake(ssl_.get());
    return ok == 1 ? IoOutcome{} : outcome_of(ok);
  }
  long verify_result() const { return SSL_get_verify_result(ssl_.get()); }

 private:
  IoOutcome outcome_of(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {.state = State::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {.state = State::kWantWrite};
      // Only a close_notify is an end. A bare TCP FIN could be an attacker cutting the stream
      // short.
      case SSL_ERROR_ZERO_RETURN:
        return {.state = State::kEnd};
      case SSL_ERROR_SYSCALL:
        return {.state = State::kFailed, .os_error = errno != 0 ? errno : ECONNRESET};
      default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
          return {.state = State::kFailed, .os_error = ECONNRESET};
        return {.state = State::kFailed, .os_error = EPROTO};
    }
  }

  linux::UniqueFd socket_;
  linux::Watch watch_;
  std::shared_ptr<TlsContext> context_;
  UniqueSsl ssl_;
  bool emptied_ = false;  // the last attempt to read found nothing
};

Task<Result<std::unique_ptr<Transport>>> complete_handshake(std::unique_ptr<TlsTransport> transport,
                                                            TimePoint deadline) {
  for (;;) {
    const IoOutcome outcome = transport->try_handshake();
    if (outcome.state == State::kDone) co_return std::unique_ptr<Transport>(std::move(transport));
    if (outcome.state == State::kEnd || outcome.state == State::kFailed) {
      const long verdict = transport->verify_result();
      if (verdict != X509_V_OK) {
        ERR_clear_error();
        co_return make_error(ErrorCode::kDenied, "TLS handshake",
                             std::string("the peer's certificate is not accepted: ") +
                                 X509_verify_cert_error_string(verdict));
      }
      co_return tls_error("TLS handshake");
    }
    if (co_await wait_for(*transport, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "TLS handshake", "not done before the deadline");
  }
}

Result<std::unique_ptr<TlsTransport>> wrap(linux::Loop& loop, linux::UniqueFd socket,
                                           std::shared_ptr<TlsContext> context) {
  TRY_VOID(linux::set_nonblocking(socket.get()));
  set_tcp_options(socket.get());
  auto watch = TRY(linux::Watch::create(loop, socket.get()));
  UniqueSsl ssl(SSL_new(context->native()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket.get()) != 1) return tls_error("start TLS");
  SSL_set_mode(ssl.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
  return std::make_unique<TlsTransport>(std::move(socket), std::move(watch), std::move(ssl),
                                        std::move(context));
}

Result<SSL_CTX*> create_context(const SSL_METHOD* method) {
  // OpenSSL writes with write(2), which has no MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
  SSL_CTX* context = SSL_CTX_new(method);
  if (context == nullptr) return tls_error("create TLS context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  return context;
}

// ALPN: HTTP/1.1 only for now; a client that offers other protocols and not this one is refused.
int select_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  static constexpr unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_size, kHttp11, sizeof kHttp11 - 1, offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_server(const std::string& certificate_file,
                                                              const std::string& key_file) {
  std::shared_ptr<TlsContext> context(new TlsContext(TRY(create_context(TLS_server_method()))));
  if (SSL_CTX_use_certificate_chain_file(context->native(), certificate_file.c_str()) != 1)
    return tls_error("read TLS certificate", certificate_file);
  if (SSL_CTX_use_PrivateKey_file(context->native(), key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return tls_error("read TLS key", key_file);
  if (SSL_CTX_check_private_key(context->native()) != 1)
    return tls_error("match TLS key and certificate", key_file);
  SSL_CTX_set_alpn_select_cb(context->native(), select_protocol, nullptr);
  return context;
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_client(const std::string& authority_file) {
  std::shared_ptr<TlsContext> context(new TlsContext(TRY(create_context(TLS_client_method()))));
  SSL_CTX_set_verify(context->native(), SSL_VERIFY_PEER, nullptr);
  const int loaded =
      authority_file.empty()
          ? SSL_CTX_set_default_verify_paths(context->native())
          : SSL_CTX_load_verify_locations(context->native(), authority_file.c_str(), nullptr);
  if (loaded != 1) return tls_error("read TLS authorities", authority_file);
  return context;
}

Task<Result<std::unique_ptr<Transport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                    std::shared_ptr<TlsContext> context,
                                                    TimePoint deadline) {
  CO_TRY(auto transport, wrap(loop, std::move(socket), std::move(context)));
  transport->begin_accept();
  co_return co_await complete_handshake(std::move(transport), deadline);
}

Task<Result<std::unique_ptr<Transport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                     std::shared_ptr<TlsContext> context,
                                                     std::string host, TimePoint deadline) {
  CO_TRY(auto transport, wrap(loop, std::move(socket), std::move(context)));
  CO_TRY_VOID(transport->begin_connect(host));
  co_return co_await complete_handshake(std::move(transport), deadline);
}

}  // namespace pons::http
