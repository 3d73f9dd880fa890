#include "pons/managed/caller.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::managed {

namespace {

// The notes of one store, and neither stores nor versions.
bool is_of_memories(std::string_view path) {
  constexpr std::string_view kStores = "/v1/memory_stores/";
  if (!path.starts_with(kStores)) return false;
  path.remove_prefix(kStores.size());
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos) return false;
  path.remove_prefix(slash);
  return path == "/memories" || path.starts_with("/memories/");
}

// What a worker has to reach: its session, its work, and what the session was told to know.
bool is_of_worker(const http::RequestHead& request, std::string_view session,
                  std::string_view work) {
  const std::string_view path = request.path();
  const bool is_look = request.method == "GET";
  const std::string own = fmt::format("/v1/sessions/{}", session);
  if (path == own) return is_look;
  if (path.starts_with(own + "/")) return is_look || path == own + "/events";
  if (path.starts_with("/v1/environments/"))
    return path.ends_with(fmt::format("/work/{}/heartbeat", work)) ||
           path.ends_with(fmt::format("/work/{}/stop", work));
  if (is_of_memories(path)) return true;
  return is_look && path.starts_with("/v1/skills/");
}

// The front says which session, and which work, the key of the caller is for, if for one only.
Result<std::string> session_of(const http::RequestHead& request) {
  const auto words = request.find("x-pons-session");
  if (!words || words->empty()) return std::string();
  const std::size_t space = words->find(' ');
  const std::string_view session = words->substr(0, space);
  const std::string_view work =
      space == std::string_view::npos ? std::string_view("-") : words->substr(space + 1);
  if (is_of_worker(request, session, work)) return std::string(session);
  return make_error(ErrorCode::kDenied, "find caller", "this token is for one session only");
}

}  // namespace

Result<Caller> caller_of(const http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  Caller caller{.project = {},
                .key = {},
                .request_id = std::string(request.find("x-request-id").value_or(""))};
  if (exchange.peer().role == "front") {
    caller.project = request.find("x-pons-project").value_or("");
    caller.key = request.find("x-pons-key").value_or("");
    caller.session = TRY(session_of(request));
    if (!caller.project.empty()) return caller;
  }
  if (exchange.peer().role == "operator") {
    caller.project = TRY(http::find_query(request.query(), "project")).value_or("default");
    caller.key = "operator";
    return caller;
  }
  return make_error(ErrorCode::kDenied, "find caller", "this is for callers of the API");
}

Task<Reply<Json>> Call::body(std::size_t bytes_max) {
  const auto text = co_await exchange.read_whole_body(bytes_max);
  if (!text && text.error().code == ErrorCode::kLimit)
    co_return Refusal{413, "invalid_request_error",
                      fmt::format("the body is longer than {}", human_bytes(bytes_max))};
  if (!text) co_return text.error();
  if (text->empty()) co_return Json::object();
  CO_TRY(auto json, parse_json(*text, {.depth = 64, .bytes = bytes_max}));
  if (!json.is_object()) co_return bad_request("the body must be a JSON object");
  co_return json;
}

namespace {

Task<> answer(const Work& work, http::Exchange& exchange, std::vector<std::string> ids) {
  auto caller = caller_of(exchange);
  if (!caller) {
    exchange.respond(answer_of(caller.error(), ""));
    co_return;
  }
  Call call{.exchange = exchange, .caller = std::move(*caller), .ids = std::move(ids)};
  const auto done = co_await work(call);
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(answer_of(done.error(), call.caller.request_id));
}

}  // namespace

std::vector<std::string> read_ids(const http::PathValues& values) {
  std::vector<std::string> ids;
  for (const std::string_view value : values) {
    std::string id = http::percent_decode(value).value_or("");
    if (id.find('\0') != std::string::npos || !is_valid_utf8(id)) id.clear();
    ids.push_back(std::move(id));
  }
  return ids;
}

http::RouteHandler answering(Work work) {
  return [work = std::move(work)](http::Exchange& exchange, const http::PathValues& values) {
    return answer(work, exchange, read_ids(values));
  };
}

}  // namespace pons::managed
