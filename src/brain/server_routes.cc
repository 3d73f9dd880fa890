#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "caller_project.h"
#include "pons/base/json_place.h"
#include "pons/http/error_status.h"
#include "routes.h"
#include "server_pins.h"

// Which tools of MCP servers of others a project has accepted: a person looks, and decides.

namespace pons::brain {

namespace {

constexpr std::size_t kBodyBytesMax = 256 << 10;
constexpr std::size_t kUrlBytesMax = 2'048;

Json to_json(const KnownServer& server) {
  Json pending = Json::array();
  for (const PendingTool& tool : server.pending)
    pending.push_back(
        {{"name", tool.name},
         {"digest", tool.digest},
         {"standing", tool.is_changed ? "changed" : "new"},
         {"description", tool.description},
         {"input_schema", tool.input_schema.empty()
                              ? Json(nullptr)
                              : parse_json(tool.input_schema).value_or(Json(nullptr))}});
  return {{"url", server.url},
          {"accepted", parse_json(server.accepted.write()).value_or(Json::object())},
          {"pending", std::move(pending)},
          {"updated_unix_ms", server.updated_ms}};
}

struct Request {
  std::string project;
  Json body;
  JsonPlace place() const { return {.value = body, .pointer = {}}; }
};

Result<std::string> url_of(const JsonPlace& place) {
  if (!place.has("url")) return place.refuse("\"url\" is missing");
  std::string url = TRY(place.at("url").text());
  if (url.empty() || url.size() > kUrlBytesMax) return place.at("url").refuse("is no URL");
  return url;
}

Task<Result<Json>> list(ServerPins& pins, Request request) {
  CO_TRY(const auto known, co_await pins.list(std::move(request.project)));
  Json servers = Json::array();
  for (const KnownServer& server : known) servers.push_back(to_json(server));
  co_return Json{{"servers", std::move(servers)}};
}

// Named with its digest: a person accepts what they saw, not what has come since.
Result<std::vector<ServerPins::Choice>> read_choices(const JsonPlace& place) {
  if (!place.has("tools")) return place.refuse("\"tools\" is missing");
  const JsonPlace tools = place.at("tools");
  TRY_VOID(tools.expect_list(mcp::kToolsMax));
  if (tools.value.empty()) return tools.refuse("is empty");
  std::vector<ServerPins::Choice> choices;
  for (std::size_t i = 0; i < tools.value.size(); ++i) {
    const JsonPlace tool = tools.at(i);
    TRY_VOID(tool.expect_object({"name", "digest"}));
    for (const char* key : {"name", "digest"})
      if (!tool.has(key)) return tool.refuse(fmt::format("\"{}\" is missing", key));
    choices.push_back(
        {.name = TRY(tool.at("name").text()), .digest = TRY(tool.at("digest").text())});
  }
  return choices;
}

Task<Result<Json>> accept(ServerPins& pins, Request request) {
  CO_TRY_VOID(request.place().expect_object({"url", "tools"}));
  CO_TRY(auto url, url_of(request.place()));
  CO_TRY(auto choices, read_choices(request.place()));
  CO_TRY(const auto server,
         co_await pins.accept(std::move(request.project), std::move(url), std::move(choices)));
  co_return to_json(server);
}

Task<Result<Json>> forget(ServerPins& pins, Request request) {
  CO_TRY_VOID(request.place().expect_object({"url"}));
  CO_TRY(auto url, url_of(request.place()));
  CO_TRY_VOID(co_await pins.forget(std::move(request.project), std::move(url)));
  co_return Json::object();
}

using Work = Task<Result<Json>> (*)(ServerPins&, Request);

Task<Result<Json>> do_work(Work work, ServerPins& pins, http::Exchange& exchange) {
  Request request;
  CO_TRY(request.project, project_of(exchange));
  CO_TRY(const auto body, co_await exchange.read_whole_body(kBodyBytesMax));
  auto json = parse_json(body.empty() ? "{}" : body);
  if (!json || !json->is_object())
    co_return make_error(ErrorCode::kInvalid, "read request", "the body is no JSON object");
  request.body = std::move(*json);
  co_return co_await work(pins, std::move(request));
}

Task<> answer(Work work, ServerPins& pins, http::Exchange& exchange) {
  const auto done = co_await do_work(work, pins, exchange);
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> server_routes(ServerPins& pins) {
  const auto with = [&pins](Work work) {
    return [&pins, work](http::Exchange& exchange, const http::PathValues&) {
      return answer(work, pins, exchange);
    };
  };
  return {{"GET", "/mcp-servers", with(list)},
          {"POST", "/mcp-servers/accept", with(accept)},
          {"POST", "/mcp-servers/forget", with(forget)}};
}

}  // namespace pons::brain
