#pragma once

#include <memory>

#include "attached_sandbox.h"
#include "pons/http/server.h"
#include "pons/linux/fd.h"
#include "refusal.h"
#include "relay.h"
#include "sniff.h"

namespace pons::egress {

// One connection out of a sandbox, from the moment it arrives at the listener to its end.
//
//   where to   → the address it wanted, which DNS gave to one name; or what it asks the proxy for
//   may it     → the policy
//   what is it → TLS, HTTP, or something else
//   then       → requests are relayed one by one; TLS that need not be looked into passes as it is;
//                everything else is answered with the reason why not
class Flow {
 public:
  Flow(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, linux::UniqueFd socket,
       linux::Watch watch);
  Task<> run();

 private:
  using Version = Relay::Version;

  Task<> serve_proxy();
  Task<> serve_connect_request();
  Task<> serve_names();
  Task<> carry(Origin origin);
  Task<> carry_tls(Origin origin, http::ClientHello hello);
  Task<> end_tls(Origin origin, http::ClientHello hello);
  Task<std::expected<std::unique_ptr<http::Transport>, const char*>> accept_tls(
      std::string name, const http::ClientHello& hello, Version version);
  Task<> carry_http(Origin origin);
  Task<> carry_http2(Origin origin);
  Task<> pass_through(Origin origin, std::string_view protocol);
  Task<> refuse_connect(Origin origin, Refusal refusal);
  Task<> refuse(Origin origin, Refusal refusal);
  Task<> relay(std::unique_ptr<http::Transport> client, std::optional<Origin> origin,
               std::unique_ptr<http::Transport> ready, Version version = Version::kHttp1);
  http::Refuser refuser_for(std::optional<Origin> origin, Version version);
  Task<> answer_refused(std::unique_ptr<http::Transport> client, Origin origin, Refusal refusal,
                        Version version);
  Task<> answer_with(http::Exchange& exchange, const Origin& origin, const Refusal& refusal,
                     Version version);
  Task<> serve(std::unique_ptr<http::Transport> client, std::optional<Origin> origin,
               Version version, http::Handler handler);

  std::expected<Origin, Refusal> find_origin(const OriginalDestination& destination);
  std::optional<Refusal> check_greeting(const Origin& origin, const http::ClientHello& hello) const;
  bool must_look_into(const Origin& origin) const;
  Result<std::unique_ptr<http::Transport>> take_socket();
  void record(const Origin& origin, audit::Verdict verdict, std::string_view protocol,
              std::string_view code, std::string_view rule);

  Boundary& boundary_;
  std::shared_ptr<AttachedSandbox> sandbox_;
  linux::UniqueFd socket_;
  std::optional<linux::Watch> watch_;  // while the socket is not a transport yet; dies before it
  SyntheticAddresses::Hold hold_;
};

}  // namespace pons::egress
