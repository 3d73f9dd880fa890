#include "pons/api/caller.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::api {

Result<Caller> caller_of(const http::Exchange& exchange) {
  const http::RequestHead& request = exchange.request();
  Caller caller{.project = {},
                .key = {},
                .request_id = std::string(request.find("x-request-id").value_or(""))};
  if (exchange.peer().role == "front") {
    caller.project = request.find("x-pons-project").value_or("");
    caller.key = request.find("x-pons-key").value_or("");
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

http::RouteHandler answering(Work work) {
  return [work = std::move(work)](http::Exchange& exchange, const http::PathValues& values) {
    std::vector<std::string> ids;
    // What is broken names nothing that is there.
    for (const std::string_view value : values)
      ids.push_back(http::percent_decode(value).value_or(""));
    return answer(work, exchange, std::move(ids));
  };
}

}  // namespace pons::api
