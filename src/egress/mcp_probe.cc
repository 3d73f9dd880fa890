#include "mcp_probe.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "carried_exchange.h"
#include "outside_url.h"
#include "pons/base/json.h"
#include "pons/linux/run_task.h"
#include "relay.h"

namespace pons::egress {

namespace {

// Beside those of sandboxes, and of what is carried.
constexpr std::uint64_t kKeysBegin = 3ULL << 62;
constexpr std::size_t kShownBytesMax = 2'048;
constexpr std::size_t kReadBytesMax = 64 * 1024;
constexpr Duration kPatience = std::chrono::seconds(15);
constexpr std::string_view kGreeting =
    R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",)"
    R"("capabilities":{},"clientInfo":{"name":"pons","version":"1"}}})";

// A request that nobody waits for but ourselves; keeps the beginning of the answer.
class Greeting final : public http::Exchange {
 public:
  Greeting(linux::Loop& loop, const OutsideUrl& url, std::string authorization)
      : loop_(loop), host_(url.authority), target_(url.target) {
    fields_ = {{"host", host_},
               {"content-type", "application/json"},
               {"accept", "application/json, text/event-stream"},
               {"authorization", std::move(authorization)}};
    head_.method = "POST";
    head_.target = target_;
    head_.host = host_;
    for (const auto& [name, value] : fields_) head_.fields.push_back({name, value});
    head_.framing = http::BodyFraming::kLength;
    head_.content_length = kGreeting.size();
  }
  Greeting(const Greeting&) = delete;
  Greeting& operator=(const Greeting&) = delete;

  const http::RequestHead& request() const override { return head_; }
  const http::Peer& peer() const override { return peer_; }
  linux::Loop& loop() override { return loop_; }
  Task<Result<std::string_view>> read_body() override {
    co_return std::exchange(body_, std::string_view());
  }
  // Ours: a refusal, and no word of the server's.
  void respond(http::Response) override {}
  Task<Result<void>> start(http::Response head) override {
    answer_.emplace(
        vault::ProbeAnswer{.status = head.status, .content_type = std::move(head.content_type)});
    co_return take(head.body);
  }
  Task<Result<void>> write(std::string_view bytes) override { co_return take(bytes); }
  Task<Result<void>> finish(std::string_view last) override { co_return take(last); }
  void abort() override {}
  Task<bool> wait_for_hang_up(TimePoint deadline) override {
    co_await loop_.sleep_until(deadline);
    co_return false;
  }
  Task<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(http::WebSocketLimits,
                                                                  std::string) override {
    co_return make_error(ErrorCode::kUnsupported, "greet server", "no WebSocket");
  }

  std::optional<vault::ProbeAnswer>& answer() { return answer_; }

 private:
  // A server that keeps talking has said enough.
  Result<void> take(std::string_view bytes) {
    read_ += bytes.size();
    const std::size_t room = kShownBytesMax - std::min(kShownBytesMax, answer_->body.size());
    answer_->body += bytes.substr(0, room);
    answer_->is_cut |= bytes.size() > room;
    if (read_ > kReadBytesMax) return make_error(ErrorCode::kLimit, "greet server", "enough");
    return {};
  }

  linux::Loop& loop_;
  std::string host_;
  std::string target_;
  http::OwnedFields fields_;  // what the head looks at
  http::RequestHead head_;
  http::Peer peer_{.role = "egress"};
  std::string_view body_ = kGreeting;
  std::optional<vault::ProbeAnswer> answer_;
  std::size_t read_ = 0;
};

Task<Result<void>> carry(Relay& relay, Greeting& greeting) {
  co_await relay.handle(greeting);
  co_return {};
}

}  // namespace

Result<std::shared_ptr<AttachedSandbox>> McpProbe::make_sandbox(const vault::VaultPlace& place,
                                                                const Origin& origin) {
  const Json document = {{"mode", "list"},
                         {"allow", {{{"host", to_text(origin.host)}, {"ports", {origin.port}}}}}};
  auto policy = TRY(Policy::compile(dump_json(document), 1, {}));
  auto sandbox =
      std::make_shared<AttachedSandbox>(boundary_.loop, kKeysBegin + ++greeted_,
                                        fmt::format("for:{}", place.vault), std::move(policy));
  sandbox->own_vaults = TRY(attachments_.find_vaults(place.project, {place.vault}));
  return sandbox;
}

Task<std::optional<vault::ProbeAnswer>> McpProbe::greet(vault::VaultPlace place, std::string url) {
  const auto server = parse_outside_url(url);
  const auto credential =
      boundary_.project_vaults->find_for_server(place.project, place.vault, url);
  if (!server || credential == nullptr) co_return std::nullopt;
  const auto sandbox = make_sandbox(place, server->origin);
  if (!sandbox) co_return std::nullopt;
  (*sandbox)->also_granted = credential->name;
  Greeting greeting(
      boundary_.loop, *server,
      fmt::format("Bearer {}",
                  (*sandbox)->stub_for(*(*sandbox)->own_vaults.front()->vault, *credential)));
  Relay relay(boundary_, *sandbox, server->origin);
  (void)co_await linux::within(boundary_.loop, boundary_.loop.now() + kPatience,
                               carry(relay, greeting));
  co_return std::move(greeting.answer());
}

}  // namespace pons::egress
