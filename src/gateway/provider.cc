#include "provider.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/names/dial.h"

namespace pons::gateway {

namespace {

constexpr Duration kConnectTime = std::chrono::seconds(10);
constexpr Duration kWriteStall = std::chrono::seconds(30);

// How long a provider may be silent is known to who waits for it; this only ends what was
// forgotten.
Duration silence_max(const ProviderSettings& settings) {
  return settings.longest_silence() + std::chrono::seconds(5);
}

http::ClientLimits client_limits(const ProviderSettings& settings) {
  return {.connect_time = kConnectTime,
          .first_byte_time = silence_max(settings),
          .idle_time = silence_max(settings),
          .idle_connections = 64};
}

}  // namespace

Provider::Provider(linux::Loop& loop, ProviderSettings settings, std::vector<Secret> keys,
                   names::Resolver& resolver, std::shared_ptr<http::TlsContext> tls)
    : loop_(loop),
      settings_(std::move(settings)),
      resolver_(resolver),
      tls_(std::move(tls)),
      sessions_(std::make_shared<http::TlsSessions>(clock_)),
      offers_http2_(tls_ != nullptr) {
  for (Secret& secret : keys) keys_.push_back({.secret = std::move(secret)});
  if (keys_.empty()) keys_.emplace_back();
  http1_ = http::link_over_http1(
      loop_, [this](TimePoint deadline) { return dial(deadline); }, settings_.url.authority(),
      client_limits(settings_));
}

Provider::~Provider() = default;

std::optional<std::size_t> Provider::pick_key(TimePoint now) const {
  for (std::size_t key = 0; key < keys_.size(); ++key)
    if (keys_[key].out_until <= now) return key;
  return std::nullopt;
}

void Provider::rest_key(std::size_t key, TimePoint until, KeyRest why) {
  keys_[key].out_until = until;
  keys_[key].why = why;
}

Provider::Resting Provider::next_key() const {
  const auto next = std::ranges::min_element(keys_, {}, &Key::out_until);
  return {.until = next->out_until, .why = next->why};
}

void Provider::add_key_field(std::size_t key, http::OwnedFields& fields) const {
  const Secret& secret = keys_[key].secret;
  if (secret.empty()) return;
  if (settings_.key_header == KeyHeader::kApiKey)
    fields.emplace_back("x-api-key", secret.reveal());
  else
    fields.emplace_back("Authorization", fmt::format("Bearer {}", secret.reveal()));
}

std::string Provider::without_keys(std::string text) const {
  for (const Key& key : keys_) {
    const std::string_view secret = key.secret.reveal();
    if (secret.empty()) continue;
    constexpr std::string_view kInstead = "[key]";
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kInstead.size()))
      text.replace(at, secret.size(), kInstead);
  }
  return text;
}

Task<Result<Provider::Sent>> Provider::send(http::ClientRequest request) {
  CO_TRY(std::shared_ptr<http::UpstreamLink> link, co_await pick_link());
  CO_TRY(auto answer, co_await link->send(std::move(request)));
  co_return Sent{.link = std::move(link), .answer = std::move(answer)};
}

// A link with room for another call: those who use one hold it. What is over a peer's limit would
// wait unseen, and one caller's streams must not be in the way of all others.
std::shared_ptr<http::UpstreamLink> Provider::find_link() {
  constexpr long kCallsPerLink = 50;
  std::erase_if(http2_, [](const auto& link) { return !link->is_usable(); });
  for (const auto& link : http2_)
    if (link.use_count() <= kCallsPerLink) return link;
  return nullptr;
}

// Finds out what a provider speaks by a connection that the next request then uses.
Task<Result<std::shared_ptr<http::UpstreamLink>>> Provider::pick_link() {
  if (!offers_http2_) co_return http1_;
  if (auto link = find_link()) co_return link;
  const TimePoint deadline = loop_.now() + kConnectTime;
  CO_TRY(linux::UniqueFd socket,
         settings_.proxy.empty()
             ? co_await dial_host(settings_.url.host, settings_.url.port, deadline)
             : co_await dial_through_proxy(deadline));
  http::TlsConnect how{.context = tls_,
                       .host = settings_.url.host,
                       .protocols = {"h2", "http/1.1"},
                       .sessions = sessions_,
                       .session_key = settings_.name};
  CO_TRY(auto transport,
         co_await http::connect_tls(loop_, std::move(socket), std::move(how), deadline));
  if (transport->protocol() != "h2") {
    offers_http2_ = false;
    dialled_ = std::move(transport);
    co_return http1_;
  }
  http::Http2Limits limits = http::Http2Limits::for_client();
  limits.first_byte_time = silence_max(settings_);
  limits.body_idle_time = silence_max(settings_);
  http2_.push_back(http::link_over_http2(loop_, std::move(transport), settings_.url.authority(),
                                         "https", limits));
  co_return http2_.back();
}

Task<Result<std::unique_ptr<http::Transport>>> Provider::dial(TimePoint deadline) {
  if (dialled_ && !dialled_->watch().hung_up()) co_return std::move(dialled_);
  CO_TRY(linux::UniqueFd socket,
         settings_.proxy.empty()
             ? co_await dial_host(settings_.url.host, settings_.url.port, deadline)
             : co_await dial_through_proxy(deadline));
  if (!tls_) co_return http::create_plain_transport(loop_, std::move(socket));
  http::TlsConnect how{.context = tls_,
                       .host = settings_.url.host,
                       .protocols = {"http/1.1"},
                       .sessions = sessions_,
                       .session_key = settings_.name};
  CO_TRY(std::unique_ptr<http::Transport> transport,
         co_await http::connect_tls(loop_, std::move(socket), std::move(how), deadline));
  co_return std::move(transport);
}

Task<Result<linux::UniqueFd>> Provider::dial_host(std::string host, std::uint16_t port,
                                                  TimePoint deadline) {
  std::vector<names::IpAddress> addresses;
  if (const auto address = names::IpAddress::parse(host)) {
    addresses = {*address};
  } else {
    CO_TRY(names::HostName name, names::HostName::parse(host));
    CO_TRY(const names::ResolvedHost found, co_await resolver_.resolve(std::move(name), deadline));
    addresses = names::in_dialling_order(found.addresses, port);
  }
  Error last = make_error(ErrorCode::kNotFound, "dial provider", "the name has no address");
  for (const names::IpAddress& address : addresses) {
    auto socket = co_await names::dial(loop_, address, port, deadline);
    if (socket) co_return std::move(socket);
    last = socket.error();
  }
  co_return last;
}

Task<Result<linux::UniqueFd>> Provider::dial_through_proxy(TimePoint deadline) {
  CO_TRY(const ProviderUrl proxy, ProviderUrl::parse(settings_.proxy));
  CO_TRY(linux::UniqueFd socket, co_await dial_host(proxy.host, proxy.port, deadline));
  CO_TRY(linux::UniqueFd ours, linux::duplicate(socket.get()));
  CO_TRY(const auto transport, http::create_plain_transport(loop_, std::move(ours)));
  const std::string& host = settings_.url.host;
  const std::string target = fmt::format(
      "{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", settings_.url.port);
  const std::string ask = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", target);
  std::array pieces = {http::to_iovec(ask)};
  CO_TRY_VOID(co_await http::write_all(*transport, pieces, kWriteStall));
  // One byte at a time: what follows the head belongs to the provider.
  std::string head;
  constexpr std::size_t kHeadBytesMax = 8192;
  while (!head.ends_with("\r\n\r\n")) {
    char byte = 0;
    CO_TRY(const std::size_t got, co_await http::read_some(*transport, {&byte, 1}, deadline));
    if (got == 0 || head.size() >= kHeadBytesMax)
      co_return make_error(ErrorCode::kUnavailable, "dial through proxy", "the proxy hung up");
    head += byte;
  }
  if (!head.starts_with("HTTP/1.1 200") && !head.starts_with("HTTP/1.0 200"))
    co_return make_error(ErrorCode::kUnavailable, "dial through proxy",
                         "the proxy refused: " + head.substr(0, head.find('\r')));
  co_return std::move(socket);
}

}  // namespace pons::gateway
