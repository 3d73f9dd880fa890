#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "answer_filter.h"
#include "judge.h"
#include "pons/http/client.h"
#include "pons/http/upstream.h"
#include "request_body.h"
#include "upstream.h"

namespace pons::egress {

struct RelayLimits {
  // Of a WebSocket on which neither side sends a message; pings do not count.
  Duration message_idle = std::chrono::minutes(15);
  std::size_t message_bytes = 4 * 1024 * 1024;  // each is held as a whole while it is looked at
};

// Answers the requests of one connection out of a sandbox: each is judged, sent on in words of our
// own, and its answer brought back.
class Relay {
 public:
  enum class Version : std::uint8_t { kHttp1, kHttp2 };

  // `origin`: where the connection goes. Without one it speaks to a proxy, and each request names
  // where it goes. `ready`: a connection to the origin that stands already. Both sides speak the
  // same version: nothing is ever translated.
  Relay(Boundary& boundary, std::shared_ptr<AttachedSandbox> sandbox, std::optional<Origin> origin,
        std::unique_ptr<http::Transport> ready = nullptr, Version version = Version::kHttp1,
        RelayLimits limits = {});

  Task<> handle(http::Exchange& exchange);

 private:
  struct Upstream {
    Origin origin;
    std::unique_ptr<http::Transport> ready;
    std::optional<Refusal> refusal;  // why the last connection could not be made
    // What was judged for the one request at hand. HTTP/1.1 only: streams would share it.
    std::function<bool()> still_holds;
    std::shared_ptr<http::UpstreamLink> link;  // shared by the requests whose answers it brings
    std::shared_ptr<linux::Event> connecting;  // shared by those who wait for it
  };
  struct Case;  // one request, see relay_case.h
  class UnfinishedRecord;

  std::expected<Origin, Refusal> origin_of(const http::RequestHead& head) const;
  std::optional<Refusal> take_stream_memory(Case& request);
  std::optional<Refusal> introduce(Case& request);
  Upstream& upstream_for(const Origin& origin);
  Task<std::optional<Refusal>> carry(Case& request);
  Task<std::optional<Refusal>> prepare_body(Case& request);
  Task<Result<std::string_view>> next_piece(Case& request);
  Task<std::optional<Refusal>> send(Case& request, Upstream& upstream);
  Task<std::optional<Refusal>> deliver(Case& request, http::UpstreamAnswer& answer);
  Task<Result<void>> deliver_piece(Case& request, AnswerFilter& filter, std::string_view piece,
                                   std::string& ready);
  Task<std::optional<Refusal>> answer_tool(Case& request);
  Task<std::optional<Refusal>> carry_websocket(Case& request, Upstream& upstream);
  Task<std::expected<std::shared_ptr<http::UpstreamLink>, Refusal>> link_to(Upstream& upstream);
  std::expected<std::shared_ptr<http::UpstreamLink>, Refusal> link_over_http2(
      const Origin& origin, std::unique_ptr<http::Transport> transport);
  http::Connector connector_to(Upstream& upstream);
  Task<Result<std::unique_ptr<http::Transport>>> connect_to(Upstream& upstream);
  static std::string host_field(const Origin& origin);
  Task<Result<std::string_view>> next_held(Case& request);
  std::optional<Refusal> take_trailers(Case& request);
  void record_passed(Case& request);
  Refusal body_refusal(const Case& request, const Error& error) const;
  bool still_holds(std::uint64_t policy_generation, const Judged& judged) const;
  audit::Decision describe(const Case& request) const;
  void record(const Case& request, audit::Verdict verdict, std::string_view code,
              std::string_view rule);

  Boundary& boundary_;
  std::shared_ptr<AttachedSandbox> sandbox_;
  std::optional<Origin> origin_;
  Version version_;
  const RelayLimits limits_;
  std::map<std::string, Upstream> upstreams_;
};

}  // namespace pons::egress
