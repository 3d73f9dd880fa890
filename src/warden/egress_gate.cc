#include "egress_gate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"
#include "pons/roles/channel.h"

namespace pons::warden {

namespace {

constexpr std::size_t kAnswerBytesMax = 1 << 20;
constexpr int kTries = 5;

Result<std::map<std::string, std::string>> variables_of(std::string_view body) {
  const Json answer = TRY(parse_json(body));
  try {
    return answer.at("environment").get<std::map<std::string, std::string>>();
  } catch (const Json::exception&) {
    return make_error(ErrorCode::kInternal, "attach network", "egress answered in another shape");
  }
}

}  // namespace

Task<Result<std::unique_ptr<http::Transport>>> EgressGate::dial_with(const Attachment& attachment) {
  const int along[] = {attachment.listener.get(), attachment.names.get()};
  CO_TRY(auto socket, roles::dial(channel_, along));
  co_return http::create_plain_transport(loop_, std::move(socket));
}

Task<Result<std::map<std::string, std::string>>> EgressGate::attach(Attachment attachment) {
  // A connection of its own: the two sockets travel with it.
  const auto connect = [this, &attachment](TimePoint) { return dial_with(attachment); };
  http::Client client(loop_, connect, "egress", {.first_byte_time = std::chrono::seconds(5)});
  http::ClientRequest request{.method = "PUT",
                              .target = fmt::format("/sandboxes/{:016x}", attachment.key)};
  request.body = dump_json({{"id", attachment.id},
                            {"environment", attachment.network.environment},
                            {"policy", attachment.network.policy}});
  CO_TRY(auto response, co_await client.send(std::move(request)));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("attach network", response.status(), body);
  co_return variables_of(body);
}

Task<Result<void>> EgressGate::tell(http::ClientRequest request) {
  CO_TRY(auto response, co_await client_.send(std::move(request)));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() >= 300) co_return http::error_of("tell egress", response.status(), body);
  co_return {};
}

// An egress that is being restarted takes its sandboxes over first: one that has ended is told it
// again. What is missed nevertheless is found by the next keep_only.
Task<> EgressGate::tell_detached(std::uint64_t key) {
  for (int i = 0; i < kTries; ++i) {
    const auto told =
        co_await tell({.method = "DELETE", .target = fmt::format("/sandboxes/{:016x}", key)});
    if (told) co_return;
    if (i + 1 == kTries) LOG_WARN("egress does not let go of a sandbox", {"error", told.error()});
    co_await loop_.sleep_for(std::chrono::milliseconds(200));
  }
}

Task<> EgressGate::tell_kept(std::vector<std::uint64_t> keys) {
  Json list = Json::array();
  for (const std::uint64_t key : keys) list.push_back(fmt::format("{:016x}", key));
  http::ClientRequest request{.method = "PUT", .target = "/sandboxes"};
  request.body = dump_json({{"keys", std::move(list)}});
  if (const auto told = co_await tell(std::move(request)); !told)
    LOG_WARN("egress does not know which sandboxes are alive", {"error", told.error()});
}

}  // namespace pons::warden
