#include "pons/database/greeting.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "client_library.h"
#include "pons/base/text.h"
#include "pons/names/host_name.h"
#include "pons/names/ip_address.h"

namespace pons::database {

namespace {

using State = http::IoOutcome::State;

constexpr const char* kSystemAuthorities = "/etc/ssl/certs/ca-certificates.crt";

// A connection of the library's, and the library.
class Connection {
 public:
  Connection(const ClientLibrary& library, PGconn* made) : library_(library), made_(made) {}
  Connection(Connection&& other) noexcept
      : library_(other.library_), made_(std::exchange(other.made_, nullptr)) {}
  Connection& operator=(Connection&&) = delete;
  ~Connection() {
    if (made_ != nullptr) library_.finish(made_);
  }

  bool is_bad() const { return made_ == nullptr || library_.status(made_) == CONNECTION_BAD; }
  int socket() const { return library_.socket(made_); }
  PostgresPollingStatusType poll() { return library_.connect_poll(made_); }
  SSL* tls() const { return static_cast<SSL*>(library_.ssl_struct(made_, "OpenSSL")); }
  std::string_view said() const {
    return made_ == nullptr ? "no memory" : library_.error_message(made_);
  }

 private:
  const ClientLibrary& library_;
  PGconn* made_;
};

// The library's connection once it has greeted: its TLS, or its socket, and nothing of its own
// buffers.
class GreetedTransport final : public http::Transport {
 public:
  GreetedTransport(Connection connection, linux::Watch watch)
      : connection_(std::move(connection)), watch_(std::move(watch)), tls_(connection_.tls()) {}

  http::IoOutcome try_read(std::span<char> into) override {
    if (tls_ == nullptr) return of_socket(recv(fd(), into.data(), into.size(), MSG_DONTWAIT));
    ERR_clear_error();
    const int got = SSL_read(tls_, into.data(), size_of(into.size()));
    return got > 0 ? http::IoOutcome{.bytes = static_cast<std::size_t>(got)}
                   : of_tls(got, SSL_ERROR_WANT_READ, State::kWantRead);
  }

  http::IoOutcome try_write(std::span<const iovec> from) override {
    if (tls_ == nullptr) {
      msghdr message{.msg_iov = const_cast<iovec*>(from.data()), .msg_iovlen = from.size()};
      const http::IoOutcome sent = of_socket(sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
      return sent.state == State::kWantRead ? http::IoOutcome{.state = State::kWantWrite} : sent;
    }
    for (const iovec& piece : from) {
      if (piece.iov_len == 0) continue;
      ERR_clear_error();
      const int sent = SSL_write(tls_, piece.iov_base, size_of(piece.iov_len));
      return sent > 0 ? http::IoOutcome{.bytes = static_cast<std::size_t>(sent)}
                      : of_tls(sent, SSL_ERROR_WANT_WRITE, State::kWantWrite);
    }
    return {};
  }

  bool has_buffered_input() const override { return tls_ != nullptr && SSL_pending(tls_) > 0; }
  void shut_down_writing() override {
    if (tls_ != nullptr) SSL_shutdown(tls_);
    shutdown(fd(), SHUT_WR);
  }
  http::IoOutcome try_shut_down_writing() override {
    shut_down_writing();
    return {};
  }
  linux::Watch& watch() override { return watch_; }
  int fd() const override { return connection_.socket(); }

 private:
  static int size_of(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(bytes, 1 << 20));
  }
  static http::IoOutcome of_socket(ssize_t moved) {
    if (moved > 0) return {.bytes = static_cast<std::size_t>(moved)};
    if (moved == 0) return {.state = State::kEnd};
    if (errno == EAGAIN || errno == EINTR) return {.state = State::kWantRead};
    return {.state = State::kFailed, .os_error = errno};
  }
  // To want the other direction is what renegotiation would need, which nobody does any more.
  http::IoOutcome of_tls(int result, int wanted, State wants) const {
    const int why = SSL_get_error(tls_, result);
    if (why == wanted) return {.state = wants};
    if (why == SSL_ERROR_ZERO_RETURN) return {.state = State::kEnd};
    return {.state = State::kFailed, .os_error = errno != 0 ? errno : ECONNRESET};
  }

  Connection connection_;
  linux::Watch watch_;  // after the connection: it must go first
  SSL* tls_;
};

// Lists for the library, with a place for each address: it tries them in their order.
struct Places {
  std::string hosts;
  std::string addresses;
  std::string ports;

  void add(std::string_view host, std::string_view address, std::string_view port) {
    const char* comma = hosts.empty() ? "" : ",";
    hosts += fmt::format("{}{}", comma, host);
    addresses += fmt::format("{}{}", comma, address);
    ports += fmt::format("{}{}", comma, port);
  }
};

std::string_view port_of(const std::vector<std::string_view>& ports, std::size_t host) {
  const std::string_view port = ports.size() == 1     ? ports.front()
                                : host < ports.size() ? ports[host]
                                                      : std::string_view();
  return port.empty() ? "5432" : port;
}

// The library would look names up itself, and keep everybody waiting.
Task<Result<Places>> find_places(names::Resolver& resolver, const Address& address,
                                 TimePoint deadline) {
  constexpr std::size_t kAddressesMax = 4;  // of one host
  const auto given = address.options.find("port");
  const auto ports = split(given == address.options.end() ? "" : given->second, ',');
  Places places;
  Error missing;
  for (std::size_t i = 0; i < address.hosts.size(); ++i) {
    const std::string& host = address.hosts[i];
    const std::string_view port = port_of(ports, i);
    if (names::IpAddress::parse(host)) {
      places.add(host, host, port);
      continue;
    }
    CO_TRY(auto name, names::HostName::parse(host));
    const auto found = co_await resolver.resolve(std::move(name), deadline);
    if (!found) missing = found.error();  // another one may do
    for (std::size_t k = 0; found && k < std::min(found->addresses.size(), kAddressesMax); ++k)
      places.add(host, found->addresses[k].to_text(), port);
  }
  if (places.hosts.empty())
    co_return make_error(ErrorCode::kUnavailable, "find database",
                         fmt::format("{}: {}", address.shown, missing.describe()));
  co_return places;
}

// Terminated, and wiped at the end.
class ClearText {
 public:
  explicit ClearText(const Secret& secret) : text_(secret.reveal()) {}
  ClearText(const ClearText&) = delete;
  ClearText& operator=(const ClearText&) = delete;
  ~ClearText() { wipe(text_.data(), text_.size()); }
  const char* get() const { return text_.c_str(); }

 private:
  std::string text_;
};

Connection begin(const ClientLibrary& library, const Guest& guest, const Places& places) {
  std::map<std::string, std::string> options = guest.address.options;
  options["host"] = places.hosts;
  options["hostaddr"] = places.addresses;
  options["port"] = places.ports;
  options["client_encoding"] = "UTF8";
  options["application_name"] = "pons";
  options["gssencmode"] = "disable";
  // Files that are not there: nothing of whoever runs this is to be sent.
  options["sslcert"] = "no-client-certificate";
  options["passfile"] = "no-password-file";
  options["keepalives_idle"] = "10";
  options["keepalives_interval"] = "5";
  options["keepalives_count"] = "3";
  options["tcp_user_timeout"] = "20000";
  if (options["sslmode"].starts_with("verify-"))
    options["sslrootcert"] =
        guest.authority_file.empty() ? kSystemAuthorities : guest.authority_file;
  const ClearText password(guest.password);
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : options) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back("password");
  values.push_back(password.get());
  names.push_back(nullptr);
  values.push_back(nullptr);
  return {library, library.connect_start_params(names.data(), values.data(), 0)};
}

// The socket may be another one each time, and is the library's to close.
Task<Result<linux::Wait>> wait_for(linux::Loop& loop, int socket, PostgresPollingStatusType what,
                                   TimePoint deadline) {
  CO_TRY(auto watch, linux::Watch::create(loop, socket));
  if (what == PGRES_POLLING_READING) co_return co_await watch.readable(deadline);
  co_return co_await watch.writable(deadline);
}

Error failure(const Guest& guest, const Connection& connection) {
  std::string said(trim(connection.said()));
  for (char& c : said)
    if (c == '\n' || c == '\t') c = ' ';
  return make_error(ErrorCode::kUnavailable, "connect to database",
                    fmt::format("{}: {}", guest.address.shown, said));
}

}  // namespace

Task<Result<std::unique_ptr<http::Transport>>> greet(linux::Loop& loop, names::Resolver& resolver,
                                                     Guest guest, TimePoint deadline) {
  CO_TRY(const ClientLibrary* const library, client_library());
  CO_TRY(const auto places, co_await find_places(resolver, guest.address, deadline));
  Connection connection = begin(*library, guest, places);
  if (connection.is_bad()) co_return failure(guest, connection);
  PostgresPollingStatusType next = PGRES_POLLING_WRITING;
  while (next != PGRES_POLLING_OK) {
    CO_TRY(const auto waited, co_await wait_for(loop, connection.socket(), next, deadline));
    if (waited == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kUnavailable, "connect to database",
                           fmt::format("{} does not answer", guest.address.shown));
    next = connection.poll();
    if (next == PGRES_POLLING_FAILED) co_return failure(guest, connection);
  }
  CO_TRY(auto watch, linux::Watch::create(loop, connection.socket()));
  co_return std::make_unique<GreetedTransport>(std::move(connection), std::move(watch));
}

}  // namespace pons::database
