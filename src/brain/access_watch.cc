#include "access_watch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "access_desk.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"

namespace pons::brain {

namespace {

constexpr std::size_t kAnswerBytesMax = 1 << 20;
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(10);
constexpr int kParentsMax = 16;

// It would say the same the next time.
bool is_final(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kInvalid ||
         error.code == ErrorCode::kConflict || error.code == ErrorCode::kDenied ||
         error.code == ErrorCode::kLimit;
}

std::string label_of(const sandbox::SandboxInfo& info, const char* name) {
  const auto found = info.labels.find(name);
  return found == info.labels.end() ? std::string() : found->second;
}

}  // namespace

Task<> AccessWatch::keep_going() {
  for (Duration pause = kFirstPause;;) {
    const auto passed = co_await pass_on();
    if (passed && *passed) {
      pause = kFirstPause;
      continue;
    }
    if (!passed) LOG_DEBUG("egress does not say who asks for access", {"error", passed.error()});
    co_await loop_.sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

Task<Result<bool>> AccessWatch::pass_on() {
  CO_TRY(auto response, co_await egress_.send({.target = "/access-news"}));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("hear of access", response.status(), body);
  CO_TRY(const Json news, parse_json(body));
  bool is_all = true;
  try {
    for (const Json& request : news.at("requests"))
      if (const auto done = co_await pass_on(request); !done) {
        LOG_WARN("a wish of a sandbox is not passed on yet", {"error", done.error()});
        is_all = false;
      }
  } catch (const Json::exception&) {
    co_return make_error(ErrorCode::kInvalid, "hear of access", "egress has another shape");
  }
  co_return is_all;
}

Task<Result<void>> AccessWatch::pass_on(Json request) {
  if (request.at("status") != "pending") {
    CO_TRY_VOID(co_await tell_end(request));
    co_return co_await say_told(request, request.value("session", ""));
  }
  CO_TRY(auto session, co_await tell_wish(request));
  co_return co_await say_told(request, std::move(session));
}

// The session whose people are asked now; empty: there is none.
Task<Result<std::string>> AccessWatch::tell_wish(const Json& request) {
  CO_TRY(auto session, co_await find_session(request.at("sandbox").get<std::string>()));
  if (session.empty()) co_return session;
  CO_TRY(const auto reason,
         co_await boundary_.redact({.text = request.at("reason").get<std::string>()}));
  Json wish = {{"host", request.at("host")}, {"port", request.at("port")}, {"reason", reason.text}};
  if (request.contains("methods")) wish["methods"] = request["methods"];
  const auto id = request.at("id").get<std::string>();
  const auto added = co_await sessions_.add(
      session, session::AccessAsked{.request = id,
                                    .host = request.at("host").get<std::string>(),
                                    .port = request.at("port").get<std::int64_t>(),
                                    .wish = dump_json(wish),
                                    .node = node_});
  if (added) co_return session;
  if (!is_final(added.error())) co_return added.error();
  // Nobody will ever answer it there.
  CO_TRY_VOID(co_await post(fmt::format("/access-requests/{}/withdraw", id),
                            {{"message", added.error().message}}));
  co_return std::string();
}

Task<Result<void>> AccessWatch::tell_end(const Json& request) {
  auto report =
      access_report_of(request.at("status").get<std::string>(), request.value("message", ""));
  const auto added =
      co_await sessions_.add(request.at("session").get<std::string>(),
                             session::AccessEnded{.request = request.at("id").get<std::string>(),
                                                  .outcome = report.outcome,
                                                  .message = std::move(report.message)});
  if (!added && !is_final(added.error())) co_return added.error();
  co_return Result<void>{};
}

// Whose sandbox it is, and there whoever has people: an agent of a session has none.
Task<Result<std::string>> AccessWatch::find_session(std::string sandbox) {
  const auto info = co_await sandboxes_.inspect(std::move(sandbox));
  if (!info && info.error().code == ErrorCode::kNotFound) co_return std::string();
  if (!info) co_return info.error();
  std::string id = label_of(*info, "pons.session");
  for (int i = 0; i < kParentsMax && !id.empty(); ++i) {
    const auto summary = co_await sessions_.log().find(id);
    if (!summary && summary.error().code == ErrorCode::kNotFound) co_return std::string();
    if (!summary) co_return summary.error();
    if (summary->project != label_of(*info, "pons.project")) co_return std::string();
    if (summary->parent.empty()) co_return id;
    id = summary->parent;
  }
  co_return std::string();
}

Task<Result<void>> AccessWatch::say_told(const Json& request, std::string session) {
  return post(fmt::format("/access-requests/{}/told",
                          http::percent_encode(request.at("id").get<std::string>())),
              {{"status", request.at("status")}, {"session", std::move(session)}});
}

Task<Result<void>> AccessWatch::post(std::string target, Json body) {
  CO_TRY(auto response, co_await egress_.send({.method = "POST",
                                               .target = std::move(target),
                                               .fields = {{"content-type", "application/json"}},
                                               .body = dump_json(body)}));
  CO_TRY(const auto answer, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("tell egress", response.status(), answer);
  co_return Result<void>{};
}

}  // namespace pons::brain
