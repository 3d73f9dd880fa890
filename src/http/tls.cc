#include "pons/http/tls.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "socket_options.h"
#include "tls_native.h"
#include "tls_socket.h"

namespace pons::http {

namespace {

using State = IoOutcome::State;

constexpr std::size_t kRecordBytesMax = 16 * 1024;
// Messages in a row that carry no data (tickets, new keys). More would let a peer that sends
// nothing else keep the loop busy.
constexpr int kSilentMessagesMax = 32;
constexpr std::size_t kRememberedChainBytesMax = 12 * 1024;  // usual: two to five KB

bool is_numeric_address(const std::string& host) {
  unsigned char ignored[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), ignored) == 1;
}

class TlsConnection final : public TlsTransport, private HandshakeNotes {
 public:
  static Result<std::unique_ptr<TlsConnection>> create(linux::Loop& loop, linux::UniqueFd socket,
                                                       std::shared_ptr<TlsContext> context) {
    TRY_VOID(linux::set_nonblocking(socket.get()));
    set_tcp_options(socket.get());
    auto watch = TRY(linux::Watch::create(loop, socket.get()));
    UniqueSsl ssl(SSL_new(context->native()));
    if (ssl == nullptr) return tls_error("start TLS");
    std::unique_ptr<TlsConnection> connection(
        new TlsConnection(std::move(socket), std::move(watch), std::move(ssl), std::move(context)));
    BIO* bio = TRY(connection->stream_.create_bio()).release();
    SSL_set_bio(connection->ssl_.get(), bio, bio);
    attach_notes(connection->ssl_.get(), connection.get());
    return connection;
  }

  IoOutcome try_read(std::span<char> into) override;
  IoOutcome try_write(std::span<const iovec> from) override;
  // The socket may hold records that came with an event of the past; so may it after a handshake.
  bool has_buffered_input() const override { return !emptied_; }
  IoOutcome try_shut_down_writing() override;
  void shut_down_writing() override {
    (void)try_shut_down_writing();
    shutdown(socket_.get(), SHUT_WR);
  }
  linux::Watch& watch() override { return watch_; }
  int fd() const override { return socket_.get(); }
  std::string_view protocol() const override;
  bool was_resumed() const override { return SSL_session_reused(ssl_.get()) == 1; }

  Result<void> begin_accept(TlsAccept how);
  Result<void> begin_connect(TlsConnect how);
  IoOutcome try_handshake();
  Result<void> complete();
  Error handshake_error() const;

 private:
  TlsConnection(linux::UniqueFd socket, linux::Watch watch, UniqueSsl ssl,
                std::shared_ptr<TlsContext> context)
      : socket_(std::move(socket)),
        watch_(std::move(watch)),
        context_(std::move(context)),
        stream_{.fd = socket_.get(), .first_bytes = {}},
        ssl_(std::move(ssl)) {}

  std::string_view protocol_answer() const override { return answer_; }
  void note_session(SSL_SESSION* session) override {
    TlsSessions::Session owned(session);
    if (sessions_ != nullptr && chain_bytes() <= kRememberedChainBytesMax)
      sessions_->remember(session_key_, std::move(owned));
  }
  // What the peer showed stays in memory with the session.
  std::size_t chain_bytes() const {
    const STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl_.get());
    std::size_t bytes = 0;
    for (int i = 0; i < sk_X509_num(chain); ++i)
      bytes += static_cast<std::size_t>(std::max(i2d_X509(sk_X509_value(chain, i), nullptr), 0));
    return bytes;
  }

  static void count_message(int is_sent, int, int kind, const void*, std::size_t, SSL*,
                            void* connection) {
    if (is_sent == 0 && kind == SSL3_RT_HANDSHAKE)
      ++static_cast<TlsConnection*>(connection)->silent_messages_;
  }
  Result<void> offer_protocols(std::vector<std::string> protocols);
  IoOutcome read_record(std::span<char> into);
  IoOutcome write_record(std::span<const iovec> from);
  IoOutcome outcome_of(int result);

  linux::UniqueFd socket_;
  linux::Watch watch_;
  std::shared_ptr<TlsContext> context_;
  TlsSocket stream_;
  UniqueSsl ssl_;
  std::string answer_ = "http/1.1";
  std::vector<std::string> offered_;
  std::shared_ptr<TlsSessions> sessions_;
  std::string session_key_;
  IoOutcome ending_;         // what ended the stream while there were still bytes to hand out
  int silent_messages_ = 0;  // since the last byte of data
  bool emptied_ = false;     // whatever comes next raises an event
};

// Takes records as long as they are in memory: the socket is asked again only by the next attempt.
IoOutcome TlsConnection::try_read(std::span<char> into) {
  if (ending_.state != State::kDone) return ending_;
  std::size_t total = 0;
  IoOutcome outcome;
  while (total < into.size()) {
    outcome = read_record(into.subspan(total));
    if (outcome.state != State::kDone) break;
    total += outcome.bytes;
    if (SSL_has_pending(ssl_.get()) == 0) break;
  }
  emptied_ = outcome.state == State::kWantRead ||
             (stream_.is_empty && !stream_.is_over && SSL_has_pending(ssl_.get()) == 0);
  if (total == 0) return outcome;
  if (outcome.state != State::kWantRead)
    ending_ = {.state = outcome.state, .os_error = outcome.os_error};
  return {.bytes = total};
}

IoOutcome TlsConnection::read_record(std::span<char> into) {
  for (int silent = 0; silent < kSilentMessagesMax; ++silent) {
    std::size_t got = 0;
    stream_.must_wait = false;
    ERR_clear_error();
    const int ok = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (silent_messages_ > kSilentMessagesMax) break;
    if (ok == 1) {
      silent_messages_ = 0;
      return {.bytes = got};
    }
    const IoOutcome outcome = outcome_of(ok);
    // New keys that cannot be sent because the peer takes nothing. To wait here for room would
    // disturb whoever waits to write.
    if (outcome.state == State::kWantWrite) break;
    if (outcome.state != State::kWantRead || stream_.must_wait) return outcome;
  }
  return {.state = State::kFailed, .os_error = EPROTO};
}

IoOutcome TlsConnection::try_write(std::span<const iovec> from) {
  std::size_t total = 0;
  std::size_t used = 0;  // of the first span that is left
  while (!from.empty()) {
    if (used == from.front().iov_len) {
      from = from.subspan(1);
      used = 0;
      continue;
    }
    std::array<iovec, 16> left;
    const std::size_t count = std::min(left.size(), from.size());
    std::ranges::copy(from.first(count), left.begin());
    left[0] = {.iov_base = static_cast<char*>(left[0].iov_base) + used,
               .iov_len = left[0].iov_len - used};
    const IoOutcome outcome = write_record(std::span(left).first(count));
    if (outcome.state != State::kDone) return total > 0 ? IoOutcome{.bytes = total} : outcome;
    total += outcome.bytes;
    for (std::size_t sent = outcome.bytes; sent > 0;) {
      const std::size_t step = std::min(sent, from.front().iov_len - used);
      used += step;
      sent -= step;
      if (used == from.front().iov_len) {
        from = from.subspan(1);
        used = 0;
      }
    }
  }
  return {.bytes = total};
}

// At most one record. Small pieces (the size of a chunk, its bytes, its end) travel together. The
// pieces of an attempt that is repeated are the same, so the record that waits in OpenSSL is too.
IoOutcome TlsConnection::write_record(std::span<const iovec> from) {
  std::array<char, kRecordBytesMax> gathered;
  const char* bytes = static_cast<const char*>(from.front().iov_base);
  std::size_t size = std::min(from.front().iov_len, kRecordBytesMax);
  if (size < kRecordBytesMax && from.size() > 1) {
    size = 0;
    for (const iovec& piece : from) {
      const std::size_t taken = std::min(piece.iov_len, gathered.size() - size);
      if (taken > 0) std::memcpy(gathered.data() + size, piece.iov_base, taken);
      size += taken;
    }
    bytes = gathered.data();
  }
  std::size_t sent = 0;
  ERR_clear_error();
  const int ok = SSL_write_ex(ssl_.get(), bytes, size, &sent);
  if (ok == 1) return {.bytes = sent};
  const IoOutcome outcome = outcome_of(ok);
  if (outcome.state == State::kWantRead) return {.state = State::kFailed, .os_error = EPROTO};
  return outcome;
}

IoOutcome TlsConnection::try_shut_down_writing() {
  ERR_clear_error();
  const int sent = SSL_shutdown(ssl_.get());
  const IoOutcome outcome = sent < 0 ? outcome_of(sent) : IoOutcome{};
  if (outcome.state != State::kWantWrite) shutdown(socket_.get(), SHUT_WR);
  return outcome;
}

std::string_view TlsConnection::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

Result<void> TlsConnection::begin_accept(TlsAccept how) {
  SSL_set_accept_state(ssl_.get());
  stream_.first_bytes = std::move(how.first_bytes);
  if (how.protocol) answer_ = std::move(*how.protocol);
  if (how.identity == nullptr) return {};
  const auto chain = how.identity->chain();
  bool used = SSL_use_certificate(ssl_.get(), chain.front()) == 1 &&
              SSL_use_PrivateKey(ssl_.get(), how.identity->key()) == 1;
  for (X509* certificate : chain.subspan(1))
    used = used && SSL_add1_chain_cert(ssl_.get(), certificate) == 1;
  if (!used) return tls_error("use TLS identity");
  return {};
}

// Names the host twice: in the greeting (SNI, names only) and for the check of the peer's
// certificate.
Result<void> TlsConnection::begin_connect(TlsConnect how) {
  SSL_set_connect_state(ssl_.get());
  SSL_set_hostflags(ssl_.get(),
                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  const bool named =
      is_numeric_address(how.host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), how.host.c_str()) == 1
          : !how.host.empty() && !how.host.contains('\0') &&
                SSL_set_tlsext_host_name(ssl_.get(), how.host.c_str()) == 1 &&
                SSL_set1_host(ssl_.get(), how.host.c_str()) == 1;
  if (!named) return tls_error("name the TLS host", how.host);
  TRY_VOID(offer_protocols(std::move(how.protocols)));
  if (how.sessions == nullptr) return {};
  sessions_ = std::move(how.sessions);
  // A resumed session vouches for the host it was made with.
  session_key_ = std::move(how.session_key) + '\0' + how.host;
  for (const auto& name : offered_) session_key_ += '\0' + name;
  if (const auto session = sessions_->take(session_key_); session != nullptr)
    SSL_set_session(ssl_.get(), session.get());
  return {};
}

Result<void> TlsConnection::offer_protocols(std::vector<std::string> protocols) {
  std::string offer;
  for (const auto& name : protocols) {
    if (name.empty() || name.size() > 255)
      return make_error(ErrorCode::kInvalid, "offer TLS protocols", "a name has 1 to 255 bytes");
    offer += static_cast<char>(name.size());
    offer += name;
  }
  offered_ = std::move(protocols);
  // Zero is success: this function alone is the other way round.
  if (!offer.empty() &&
      SSL_set_alpn_protos(ssl_.get(), reinterpret_cast<const unsigned char*>(offer.data()),
                          static_cast<unsigned>(offer.size())) != 0)
    return tls_error("offer TLS protocols");
  return {};
}

IoOutcome TlsConnection::try_handshake() {
  ERR_clear_error();
  const int ok = SSL_do_handshake(ssl_.get());
  return ok == 1 ? IoOutcome{} : outcome_of(ok);
}

// OpenSSL takes any protocol the server names, also one that was not offered.
Result<void> TlsConnection::complete() {
  if (SSL_is_server(ssl_.get()) == 0 && !protocol().empty() &&
      std::ranges::find(offered_, protocol()) == offered_.end())
    return make_error(ErrorCode::kDenied, "TLS handshake",
                      "the peer chose a protocol that was not offered");
  // From now on records without data are counted, and hand control back whenever the socket would
  // have to be read again.
  SSL_clear_mode(ssl_.get(), SSL_MODE_AUTO_RETRY);
  SSL_set_msg_callback(ssl_.get(), count_message);
  SSL_set_msg_callback_arg(ssl_.get(), this);
  return {};
}

Error TlsConnection::handshake_error() const {
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (verdict == X509_V_OK) return tls_error("TLS handshake");
  ERR_clear_error();
  return make_error(ErrorCode::kDenied, "TLS handshake",
                    std::string("the peer's certificate is not accepted: ") +
                        X509_verify_cert_error_string(verdict));
}

IoOutcome TlsConnection::outcome_of(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {.state = State::kWantRead};
    case SSL_ERROR_WANT_WRITE:
      return {.state = State::kWantWrite};
    // Only a close_notify is an end. A bare TCP FIN could be an attacker cutting the stream short.
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

Task<Result<std::unique_ptr<TlsTransport>>> complete_handshake(
    std::unique_ptr<TlsConnection> connection, TimePoint deadline) {
  for (;;) {
    const IoOutcome outcome = connection->try_handshake();
    if (outcome.state == State::kDone) break;
    if (outcome.state == State::kEnd || outcome.state == State::kFailed)
      co_return connection->handshake_error();
    if (co_await wait_for(*connection, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "TLS handshake", "not done before the deadline");
  }
  CO_TRY_VOID(connection->complete());
  co_return std::unique_ptr<TlsTransport>(std::move(connection));
}

}  // namespace

Task<Result<std::unique_ptr<TlsTransport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                       TlsAccept how, TimePoint deadline) {
  CO_TRY(auto connection, TlsConnection::create(loop, std::move(socket), how.context));
  CO_TRY_VOID(connection->begin_accept(std::move(how)));
  co_return co_await complete_handshake(std::move(connection), deadline);
}

Task<Result<std::unique_ptr<TlsTransport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                        TlsConnect how, TimePoint deadline) {
  CO_TRY(auto connection, TlsConnection::create(loop, std::move(socket), how.context));
  CO_TRY_VOID(connection->begin_connect(std::move(how)));
  co_return co_await complete_handshake(std::move(connection), deadline);
}

Task<Result<std::unique_ptr<Transport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                    std::shared_ptr<TlsContext> context,
                                                    TimePoint deadline) {
  TlsAccept how{.context = std::move(context)};
  CO_TRY(auto transport, co_await accept_tls(loop, std::move(socket), std::move(how), deadline));
  co_return std::unique_ptr<Transport>(std::move(transport));
}

Task<Result<std::unique_ptr<Transport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                     std::shared_ptr<TlsContext> context,
                                                     std::string host, TimePoint deadline) {
  TlsConnect how{.context = std::move(context), .host = std::move(host)};
  CO_TRY(auto transport, co_await connect_tls(loop, std::move(socket), std::move(how), deadline));
  co_return std::unique_ptr<Transport>(std::move(transport));
}

std::string tls_alert_record(TlsAlert alert) {
  // Record type alert, version 1.2, two bytes: fatal, and why.
  return {'\x15', '\x03', '\x03', '\0', '\x02', '\x02', static_cast<char>(alert)};
}

}  // namespace pons::http
