#include "upstream.h"

#include <sys/socket.h>

#include "discretion.h"
#include "pick_addresses.h"
#include "pons/names/dial.h"
#include "pons/roles/channel.h"

namespace pons::egress {

namespace {

constexpr Duration kConnectTime = std::chrono::seconds(10);
constexpr Duration kHandshakeTime = std::chrono::seconds(10);

Refusal unreachable(int status, std::string code, std::string reason) {
  return {.status = status,
          .code = std::move(code),
          .reason = std::move(reason),
          .hint = "the host itself does not answer well; try again later",
          .rule = {}};
}

Refusal refusal_of_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kDenied:
      return {.code = "address_not_allowed",
              .reason = "the host has an address that sandboxes may not reach",
              .hint = "use a host with public addresses",
              .rule = {}};
    case ErrorCode::kTimeout:
      return unreachable(504, "upstream_timeout", "the host does not answer");
    case ErrorCode::kNotFound:
      return unreachable(502, "name_not_found", "the host's name does not exist");
    default:
      return unreachable(502, "upstream_unreachable", "the host cannot be reached");
  }
}

// A machine that dials one of its own addresses would reach its own services from within.
bool leads_to_this_machine(int socket) {
  sockaddr_storage ours{};
  sockaddr_storage theirs{};
  socklen_t size = sizeof ours;
  socklen_t theirs_size = sizeof theirs;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &size) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &theirs_size) != 0)
    return true;
  const auto here = names::IpAddress::from_socket(reinterpret_cast<const sockaddr&>(ours));
  const auto there = names::IpAddress::from_socket(reinterpret_cast<const sockaddr&>(theirs));
  return !here || !there || *here == *there;
}

// The sandbox's own machine is reached only where a rule names its address.
bool is_named_by_rule(const Policy& policy, const Origin& origin, const names::IpAddress& address) {
  return names::classify(address) != names::AddressClass::kPublic &&
         policy.judge_address(origin.host, origin.port, address).allowed();
}

Task<Result<linux::UniqueFd>> dial_any(Boundary& boundary, AttachedSandbox& sandbox,
                                       const Policy& policy, Origin origin, TimePoint deadline) {
  names::ResolvedHost host;
  if (const auto* name = std::get_if<names::HostName>(&origin.host)) {
    CO_TRY(host, co_await boundary.resolver.resolve(*name, deadline, sandbox.key));
    sandbox.note_aliases(*name, host.aliases);
  } else {
    host.addresses = {std::get<names::IpAddress>(origin.host)};
  }
  const AddressChoice choice = pick_addresses(host, policy, origin.host, origin.port);
  if (!choice.decision.allowed())
    co_return make_error(ErrorCode::kDenied, "dial",
                         std::string(to_string(choice.decision.reason)));
  Error last = make_error(ErrorCode::kNotFound, "dial", "no address");
  for (const names::IpAddress& address : choice.to_try) {
    auto socket = co_await names::dial(boundary.loop, address, origin.port, deadline);
    if (socket && leads_to_this_machine(socket->get()) &&
        !is_named_by_rule(policy, origin, address))
      co_return make_error(ErrorCode::kDenied, "dial", "self_request");
    if (socket) co_return std::move(socket);
    last = socket.error();
  }
  co_return last;
}

int channel_for(const Boundary& boundary, const Origin& origin) {
  const auto* name = std::get_if<names::HostName>(&origin.host);
  return name != nullptr && is_built_in(*name) ? boundary.gateway_channel : -1;
}

}  // namespace

Task<std::expected<linux::UniqueFd, Refusal>> dial_upstream(
    Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, Origin origin) {
  const std::shared_ptr<const Policy> policy = sandbox->policy;
  const auto* name = std::get_if<names::HostName>(&origin.host);
  if (name != nullptr && tells_secret(boundary, *sandbox, *name))
    co_return std::unexpected(
        refusal_of_error(make_error(ErrorCode::kDenied, "dial", "the name holds a secret")));
  auto socket =
      co_await dial_any(boundary, *sandbox, *policy, origin, boundary.loop.now() + kConnectTime);
  if (!socket) co_return std::unexpected(refusal_of_error(socket.error()));
  co_return std::move(*socket);
}

Task<std::expected<UpstreamConnection, Refusal>> connect_upstream(
    Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, Origin origin,
    std::vector<std::string> protocols) {
  UpstreamConnection made;
  if (is_answered_here(origin.host)) {
    if (!protocols.empty()) made.protocol = protocols.front();
    co_return made;
  }
  if (const int channel = channel_for(boundary, origin); channel >= 0) {
    auto socket = roles::dial(channel);
    auto transport = socket ? http::create_plain_transport(boundary.loop, std::move(*socket))
                            : Result<std::unique_ptr<http::Transport>>(socket.error());
    if (!transport) co_return std::unexpected(refusal_of_error(transport.error()));
    made.transport = std::move(*transport);
    co_return made;
  }
  auto socket = co_await dial_upstream(boundary, sandbox, origin);
  if (!socket) co_return std::unexpected(socket.error());
  if (!origin.tls) {
    auto transport = http::create_plain_transport(boundary.loop, std::move(*socket));
    if (!transport) co_return std::unexpected(refusal_of_error(transport.error()));
    made.transport = std::move(*transport);
    co_return made;
  }
  http::TlsConnect how{.context = boundary.client_tls,
                       .host = to_text(origin.host),
                       .protocols = std::move(protocols),
                       .sessions = boundary.sessions,
                       .session_key = sandbox->id};
  auto transport = co_await http::connect_tls(boundary.loop, std::move(*socket), std::move(how),
                                              boundary.loop.now() + kHandshakeTime);
  if (!transport)
    co_return std::unexpected(
        Refusal{.status = 502,
                .code = "upstream_tls",
                .reason = "the host could not prove that it is who it should be",
                .hint = "its certificate must be valid for its name; nothing was sent to it",
                .rule = {}});
  made.protocol = (*transport)->protocol();
  made.transport = std::move(*transport);
  co_return made;
}

}  // namespace pons::egress
