#include "roles_behind.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/error_status.h"

namespace pons::front {

namespace {

constexpr std::size_t kAnswerBytesMax = 4 << 20;

Task<Result<Json>> ask(http::Client& role, const char* step, http::ClientRequest request) {
  auto sent = co_await role.send(std::move(request));
  // To a client it is all the same why it has to come again.
  if (!sent && sent.error().code == ErrorCode::kTimeout)
    co_return make_error(ErrorCode::kUnavailable, step, sent.error().describe());
  CO_TRY(auto response, std::move(sent));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of(step, response.status(), body);
  co_return parse_json(body);
}

Task<Result<void>> keep_record(http::Client& brain, Json record) {
  http::ClientRequest request{.method = "POST", .target = "/sandbox-records"};
  request.body = dump_json(Json::array({std::move(record)}));
  CO_TRY(const auto answer, co_await ask(brain, "keep record", std::move(request)));
  if (answer.value("stored", 0) == 1) co_return {};
  try {
    const Json& refused = answer.at("refused").at(0);
    if (refused.at("type") == to_string(ErrorCode::kLimit))
      co_return make_error(ErrorCode::kLimit, "keep record",
                           refused.at("message").get<std::string>());
  } catch (const Json::exception&) {  // said below
  }
  co_return make_error(ErrorCode::kUnavailable, "keep record", "the store refused it");
}

}  // namespace

Result<e2b::Caller> RolesBehind::authenticate(const http::Exchange& exchange) {
  auto identity = admission_.admit(exchange.request(), "sandboxes");
  // E2B's SDKs know of no keys that open less.
  if (!identity && identity.error().code == ErrorCode::kConflict)
    return make_error(ErrorCode::kDenied, "authenticate", identity.error().message);
  if (!identity) return identity.error();
  return e2b::Caller{.project = identity->project};
}

Task<Result<void>> RolesBehind::record_created(const e2b::Caller& caller,
                                               const sandbox::SandboxInfo& info) {
  return keep_record(brain_, {{"op", "create"},
                              {"id", info.id},
                              {"project", caller.project},
                              {"template", info.template_name},
                              {"at_unix_ms", info.created_unix_ms}});
}

Task<Result<void>> RolesBehind::record_ended(std::string project, std::string id,
                                             std::string reason) {
  return keep_record(brain_, {{"op", "end"}, {"id", id}, {"project", project}, {"reason", reason}});
}

Task<Result<std::vector<e2b::OpenRecord>>> RolesBehind::list_open_records(std::string after) {
  http::ClientRequest request{.target = fmt::format("/sandbox-records/open?after={}", after)};
  CO_TRY(const auto answer, co_await ask(brain_, "list records", std::move(request)));
  std::vector<e2b::OpenRecord> open;
  try {
    for (const Json& record : answer.at("open"))
      open.push_back({.id = record.at("id").get<std::string>(),
                      .project = record.at("project").get<std::string>()});
  } catch (const Json::exception&) {
    co_return make_error(ErrorCode::kInternal, "list records", "the answer has another shape");
  }
  co_return std::move(open);
}

Task<Result<void>> RolesBehind::set_network(std::string id, std::string policy) {
  CO_TRY(auto document, parse_json(policy));
  http::ClientRequest request{.method = "PUT", .target = fmt::format("/sandboxes/{}/policy", id)};
  request.body = dump_json({{"policy", std::move(document)}});
  CO_TRY_VOID(co_await ask(egress_, "set network", std::move(request)));
  co_return {};
}

Task<Result<std::string>> RolesBehind::find_network(std::string id) {
  http::ClientRequest request{.target = fmt::format("/sandboxes/{}/policy", id)};
  CO_TRY(const auto answer, co_await ask(egress_, "find network", std::move(request)));
  co_return dump_json(answer.value("policy", Json::object()));
}

Task<Result<std::string>> RolesBehind::ask_secrets(std::string question) {
  http::ClientRequest request{.method = "POST", .target = "/project-secrets"};
  request.body = std::move(question);
  CO_TRY(const auto answer, co_await ask(egress_, "ask for secrets", std::move(request)));
  co_return dump_json(answer);
}

}  // namespace pons::front
