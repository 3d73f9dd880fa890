#include "access_desk.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"

namespace pons::brain {

namespace {

using session::AccessOutcome;
using session::AccessReport;

constexpr std::size_t kAnswerBytesMax = 64 * 1024;

struct Answered {
  int status = 0;
  std::string body;
};

Task<Result<Answered>> post(http::Client& egress, std::string request, const char* what,
                            Json body) {
  CO_TRY(auto response,
         co_await egress.send(
             {.method = "POST",
              .target = fmt::format("/access-requests/{}/{}", http::percent_encode(request), what),
              .fields = {{"content-type", "application/json"}},
              .body = dump_json(body)}));
  CO_TRY(auto answer, co_await response.read_whole_body(kAnswerBytesMax));
  co_return Answered{.status = response.status(), .body = std::move(answer)};
}

}  // namespace

AccessReport access_report_of(std::string_view status, std::string message) {
  if (status == "allowed") return {AccessOutcome::kAllowed, std::move(message)};
  if (status == "denied") return {AccessOutcome::kDenied, std::move(message)};
  if (status == "withdrawn") return {AccessOutcome::kWithdrawn, std::move(message)};
  if (status == "closed") return {AccessOutcome::kWithdrawn, "the operator has closed it"};
  return {AccessOutcome::kFailed, std::move(message)};
}

Task<Result<AccessReport>> EgressDesk::decide(session::AccessDecision decision) {
  const Json body = {{"allow", decision.allowed}, {"message", std::move(decision.message)}};
  CO_TRY(const auto answer, co_await post(egress_, std::move(decision.request), "decision", body));
  if (answer.status == 404)
    co_return AccessReport{AccessOutcome::kWithdrawn, "nobody knows of it any more"};
  if (answer.status != 200)
    co_return http::error_of("decide on access", answer.status, answer.body);
  CO_TRY(const Json json, parse_json(answer.body));
  co_return access_report_of(json.value("status", ""), json.value("message", ""));
}

Task<Result<void>> EgressDesk::withdraw(std::string request) {
  CO_TRY(const auto answer, co_await post(egress_, std::move(request), "withdraw",
                                          {{"message", "its session was interrupted"}}));
  if (answer.status != 200)
    co_return http::error_of("withdraw access request", answer.status, answer.body);
  co_return Result<void>{};
}

}  // namespace pons::brain
