#include "port_proxy.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>

#include "failure.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "pons/http/client.h"
#include "pons/http/websocket_pair.h"

namespace pons::e2b {

namespace {

// An answer may take as long as a person waits for one, and a stream may be silent for long.
constexpr http::ClientLimits kLimits{.connect_time = std::chrono::seconds(10),
                                     .first_byte_time = std::chrono::minutes(30),
                                     .idle_time = std::chrono::hours(1),
                                     .write_stall = std::chrono::minutes(2),
                                     .idle_connections = 0};
constexpr std::size_t kSmallBodyBytes = 64 * 1024;
constexpr std::uint16_t kGoingAway = 1001;

bool is_any_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::any_of(
      names, [&](std::string_view other) { return equal_ignoring_case(name, other); });
}

bool is_hop_field(const http::Head& head, std::string_view name) {
  static constexpr std::string_view kHops[] = {
      "Connection", "Keep-Alive",        "Proxy-Connection", "Proxy-Authenticate",
      "TE",         "Transfer-Encoding", "Upgrade",          "Proxy-Authorization",
      "Trailer",    "Content-Length"};
  if (is_any_of(name, kHops)) return true;
  for (const http::Field& field : head.fields)
    if (equal_ignoring_case(field.name, "Connection") &&
        std::ranges::any_of(split(field.value, ','), [&](std::string_view named) {
          return equal_ignoring_case(trim(named), name);
        }))
      return true;
  return false;
}

// What is meant for us, or is said anew.
bool is_ours(const http::Field& field, const Access& access) {
  static constexpr std::string_view kOurs[] = {
      "Host",           "Expect",           "E2b-Traffic-Access-Token",
      "E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Forwarded-Host",
      "X-Forwarded-For"};
  static constexpr std::string_view kUpgrade = "Sec-WebSocket-";
  if (is_any_of(field.name, kOurs)) return true;
  if (field.name.size() > kUpgrade.size() &&
      equal_ignoring_case(field.name.substr(0, kUpgrade.size()), kUpgrade))
    return true;
  // The key to the sandbox itself is not for the programs in it; a service's own token is.
  return equal_ignoring_case(field.name, "X-Access-Token") && !access.access_token.empty() &&
         equal_constant_time(field.value, access.access_token);
}

http::OwnedFields fields_inward(const Call& call) {
  const http::RequestHead& head = call.exchange.request();
  http::OwnedFields fields;
  for (const http::Field& field : head.fields)
    if (!is_hop_field(head, field.name) && !is_ours(field, *call.access))
      fields.emplace_back(field.name, field.value);
  if (!head.host.empty()) fields.emplace_back("X-Forwarded-Host", head.host);
  if (!call.exchange.peer().address.empty())
    fields.emplace_back("X-Forwarded-For", call.exchange.peer().address);
  return fields;
}

// Servers refuse names that they do not know; each sees one that is its own.
std::string host_for(const Access& access, std::uint16_t port) {
  constexpr std::string_view kPort = "${PORT}";
  const std::string number = fmt::format("{}", port);
  std::string host = access.mask_host;
  if (host.empty() || !http::is_field_value(host)) return "localhost:" + number;
  for (std::size_t at = host.find(kPort); at != std::string::npos; at = host.find(kPort))
    host.replace(at, kPort.size(), number);
  return host;
}

std::string target_of(const http::RequestHead& head) {
  std::string target(head.path());
  if (head.target.find('?') != std::string_view::npos) target += "?" + std::string(head.query());
  return target;
}

// ---- the way in

struct WayIn {
  Call& call;
  std::uint16_t port;
  bool connected = false;
  bool gone = false;
};

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

// A failure to reach a port does not say whether the sandbox sleeps.
Task<Result<linux::UniqueFd>> dial(WayIn& way) {
  Call& call = way.call;
  auto socket = co_await call.provider.dial(call.id(), way.port);
  if (socket) co_return std::move(socket);
  const auto info = co_await call.provider.inspect(call.id());
  if (info && info->state == sandbox::State::kRunning) co_return std::move(socket).error();
  CO_TRY_VOID(co_await call.ensure_awake());
  co_return co_await call.provider.dial(call.id(), way.port);
}

Task<Result<std::unique_ptr<http::Transport>>> connect(WayIn& way, TimePoint deadline) {
  auto socket = co_await dial(way);
  if (!socket) {
    way.gone = is_gone(socket.error());
    co_return std::move(socket).error();
  }
  CO_TRY(auto transport, http::create_plain_transport(way.call.loop, std::move(*socket)));
  if (co_await transport->watch().writable(deadline) == linux::Wait::kTimeout ||
      connect_error(transport->fd()) != 0)
    co_return make_error(ErrorCode::kUnavailable, "reach port", "nobody listens at this port");
  way.connected = true;
  co_return std::move(transport);
}

http::Connector connector_to(WayIn& way) {
  return [&way](TimePoint deadline) { return connect(way, deadline); };
}

void respond_unreached(const WayIn& way) {
  http::Exchange& exchange = way.call.exchange;
  if (way.gone) {
    respond_gone(exchange, way.call.id());
  } else if (!way.connected) {
    respond_port_closed(exchange, way.call.id(), way.port);
  } else {
    respond_failure(exchange, 502, "the service in the sandbox did not answer properly");
  }
}

// ---- requests

http::Response head_outward(const http::ResponseHead& head, std::string_view method) {
  http::Response response{.status = head.status, .content_type = ""};
  for (const http::Field& field : head.fields)
    if (!is_hop_field(head, field.name) && !equal_ignoring_case(field.name, "Date"))
      response.fields.emplace_back(field.name, field.value);
  if (head.framing == http::BodyFraming::kLength) response.content_length = head.content_length;
  if (method == "HEAD") {
    const auto length = parse_decimal(head.find("Content-Length").value_or(""));
    if (length) response.content_length = *length;
  }
  return response;
}

Task<> pass_back(http::Exchange& exchange, http::ClientResponse& answer) {
  if (!co_await exchange.start(head_outward(answer.head(), exchange.request().method))) co_return;
  for (;;) {
    const auto piece = co_await answer.read_body();
    if (!piece) {
      exchange.abort();
      co_return;
    }
    if (piece->empty()) break;
    if (!co_await exchange.write(*piece)) co_return;
  }
  (void)co_await exchange.finish();
}

Task<> pass_on(WayIn& way, http::ClientRequest request) {
  http::Client client(way.call.loop, connector_to(way), host_for(*way.call.access, way.port),
                      kLimits);
  auto answer = co_await client.send(std::move(request));
  if (answer) {
    co_await pass_back(way.call.exchange, *answer);
  } else {
    respond_unreached(way);
  }
}

// While a body is read nobody can watch for the client's leaving, so a small one is read before.
Task<> pass_request(WayIn& way) {
  http::Exchange& exchange = way.call.exchange;
  const http::RequestHead& head = exchange.request();
  http::ClientRequest request{.method = std::string(head.method),
                              .target = target_of(head),
                              .fields = fields_inward(way.call)};
  const bool has_length = head.framing == http::BodyFraming::kLength;
  if (head.framing == http::BodyFraming::kChunked ||
      (has_length && head.content_length > kSmallBodyBytes)) {
    request.body_source = [&exchange] { return exchange.read_body(); };
    if (has_length) request.body_bytes = head.content_length;
    co_await pass_on(way, std::move(request));
    co_return;
  }
  if (has_length) {
    auto body = co_await exchange.read_whole_body(kSmallBodyBytes);
    if (!body) {
      respond_failure(exchange, body.error());
      co_return;
    }
    request.body = std::move(*body);
  }
  (void)co_await run_while_client_stays(exchange, pass_on(way, std::move(request)));
}

// ---- WebSockets

Task<> pump(http::WebSocket& from, http::WebSocket& to, http::Silence& silence,
            linux::Event& over) {
  for (;;) {
    const auto message = co_await http::next_message(from, silence);
    if (!message || !co_await http::pass_on(*message, to)) break;
  }
  over.set();
}

std::uint16_t close_code_of(const http::WebSocket& socket) {
  return socket.close_code() == 0 ? kGoingAway : socket.close_code();
}

Task<> pass_websocket(WayIn& way) {
  http::Exchange& exchange = way.call.exchange;
  const http::RequestHead& head = exchange.request();
  http::Client client(way.call.loop, connector_to(way), host_for(*way.call.access, way.port),
                      kLimits);
  http::OwnedFields fields = fields_inward(way.call);
  const auto offered = head.find("Sec-WebSocket-Protocol");
  if (offered) fields.emplace_back("Sec-WebSocket-Protocol", *offered);
  auto inside = co_await client.open_websocket(target_of(head), std::move(fields));
  if (!inside) {
    respond_unreached(way);
    co_return;
  }
  std::string chosen = (*inside)->subprotocol();
  const bool was_offered = std::ranges::any_of(
      split(offered.value_or(""), ','), [&](std::string_view one) { return trim(one) == chosen; });
  if (!was_offered) chosen.clear();
  auto outside = co_await exchange.accept_websocket({}, chosen);
  if (!outside) co_return;  // the client was told why
  // Pages that stay open over a night are common; those that nobody hears of for longer are lost.
  constexpr Duration kSilenceMax = std::chrono::hours(24);
  http::Silence silence{way.call.loop, kSilenceMax, way.call.loop.now()};
  linux::Event over(way.call.loop);
  {
    linux::TaskGroup pumps(way.call.loop);
    pumps.spawn(pump(**inside, **outside, silence, over));
    pumps.spawn(pump(**outside, **inside, silence, over));
    co_await over.wait(kNever);
  }
  const std::uint16_t inside_code = close_code_of(**inside);
  const std::uint16_t outside_code = close_code_of(**outside);
  (void)co_await (*outside)->close(inside_code, "");
  (void)co_await (*inside)->close(outside_code, "");
}

bool has_traffic_token(const http::RequestHead& head, const Access& access) {
  return access.traffic_token.empty() ||
         equal_constant_time(head.find("E2b-Traffic-Access-Token").value_or(""),
                             access.traffic_token);
}

}  // namespace

Task<> answer_port(Call& call, std::uint16_t port) {
  const http::RequestHead& head = call.exchange.request();
  if (!has_traffic_token(head, *call.access)) {
    respond_failure(call.exchange, 403, "the traffic access token is missing or wrong");
    co_return;
  }
  if (!head.path().starts_with('/')) {
    respond_failure(call.exchange, 400, "the target must be a path");
    co_return;
  }
  WayIn way{.call = call, .port = port};
  if (head.upgrade && equal_ignoring_case(head.find("Upgrade").value_or(""), "websocket")) {
    co_await pass_websocket(way);
  } else {
    co_await pass_request(way);
  }
}

}  // namespace pons::e2b
