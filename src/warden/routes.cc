#include "routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/http/query.h"
#include "pons/sandbox/wire.h"
#include "route_words.h"

namespace pons::warden {

namespace {

using namespace sandbox;

bool may_call(const http::Peer& peer) {
  return peer.role == "operator" || peer.role == "front" || peer.role == "brain";
}

Task<> answer(Provider& provider, RouteWork work, http::Exchange& exchange, Words encoded) {
  if (!may_call(exchange.peer())) {
    exchange.respond(http::error_response(403, "denied", "this role may not use sandboxes"));
    co_return;
  }
  Words words;
  for (const std::string& value : encoded) {
    auto decoded = http::percent_decode(value);
    if (!decoded) {
      respond_error(exchange, make_error(ErrorCode::kInvalid, "read address",
                                         "it is not percent-encoded as it should be"));
      co_return;
    }
    words.push_back(std::move(*decoded));
  }
  const auto done = co_await work(provider, exchange, std::move(words));
  if (!done) respond_error(exchange, done.error());
}

template <class T>
Json json_list(const char* name, const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return {{name, std::move(list)}};
}

Task<Result<void>> list_templates(Provider& provider, http::Exchange& exchange, Words) {
  CO_TRY(const auto templates, co_await provider.list_templates());
  respond_json(exchange, 200, json_list("templates", templates));
  co_return {};
}

Task<Result<void>> put_template(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto info, from_json<TemplateInfo>(body));
  if (info.name.empty()) info.name = words[0];
  if (info.name != words[0])
    co_return make_error(ErrorCode::kInvalid, "put template",
                         "the name in the body is not that of the address");
  CO_TRY_VOID(co_await provider.put_template(std::move(info)));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> remove_template(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto layers, co_await provider.remove_template(words[0]));
  respond_json(exchange, 200, {{"unreferenced_layers", layers}});
  co_return {};
}

Task<Result<void>> create_sandbox(Provider& provider, http::Exchange& exchange, Words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto request, from_json<CreateRequest>(body));
  CO_TRY(const auto info, co_await provider.create(std::move(request)));
  respond_json(exchange, 201, to_json(info));
  co_return {};
}

Task<Result<void>> list_sandboxes(Provider& provider, http::Exchange& exchange, Words) {
  CO_TRY(const auto sandboxes, co_await provider.list());
  respond_json(exchange, 200, json_list("sandboxes", sandboxes));
  co_return {};
}

Task<Result<void>> inspect(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto info, co_await provider.inspect(words[0]));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> destroy(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY_VOID(co_await provider.destroy(words[0]));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> metrics(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto usage, co_await provider.metrics(words[0]));
  respond_json(exchange, 200, to_json(usage));
  co_return {};
}

Task<Result<void>> set_limits(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(const auto limits, from_json<Limits>(body));
  CO_TRY(const auto info, co_await provider.set_limits(words[0], limits));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> set_lifetime(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  const auto from_now = body.find("from_now_ms");
  if (from_now == body.end() || !from_now->is_number_integer())
    co_return make_error(ErrorCode::kInvalid, "set lifetime", "from_now_ms is not a number");
  CO_TRY(const auto info,
         co_await provider.set_lifetime(words[0], Milliseconds(from_now->get<std::int64_t>()),
                                        body.value("pause_at_end", Json(false)) == Json(true)));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> set_label(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  if (!body.is_object() || body.size() != 1 || !body.begin()->is_string())
    co_return make_error(ErrorCode::kInvalid, "set label", "the body is one label: {NAME:VALUE}");
  CO_TRY(const auto info, co_await provider.set_label(words[0], body.begin().key(),
                                                      body.begin()->get<std::string>()));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> pause(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto info, co_await provider.pause(words[0]));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

Task<Result<void>> resume(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto info, co_await provider.resume(words[0]));
  respond_json(exchange, 200, to_json(info));
  co_return {};
}

}  // namespace

http::RouteHandler handler_of(Provider& provider, RouteWork work) {
  return [&provider, work](http::Exchange& exchange, const http::PathValues& values) {
    return answer(provider, work, exchange, Words(values.begin(), values.end()));
  };
}

std::vector<http::Route> sandbox_routes(Provider& provider) {
  std::vector<http::Route> routes = {
      {"GET", "/templates", handler_of(provider, list_templates)},
      {"PUT", "/templates/{name}", handler_of(provider, put_template)},
      {"DELETE", "/templates/{name}", handler_of(provider, remove_template)},
      {"POST", "/sandboxes", handler_of(provider, create_sandbox)},
      {"GET", "/sandboxes", handler_of(provider, list_sandboxes)},
      {"GET", "/sandboxes/{id}", handler_of(provider, inspect)},
      {"DELETE", "/sandboxes/{id}", handler_of(provider, destroy)},
      {"GET", "/sandboxes/{id}/metrics", handler_of(provider, metrics)},
      {"PUT", "/sandboxes/{id}/limits", handler_of(provider, set_limits)},
      {"PUT", "/sandboxes/{id}/lifetime", handler_of(provider, set_lifetime)},
      {"PUT", "/sandboxes/{id}/labels", handler_of(provider, set_label)},
      {"POST", "/sandboxes/{id}/pause", handler_of(provider, pause)},
      {"POST", "/sandboxes/{id}/resume", handler_of(provider, resume)},
  };
  append_job_routes(provider, routes);
  append_file_routes(provider, routes);
  append_transaction_routes(provider, routes);
  append_dial_route(provider, routes);
  return routes;
}

}  // namespace pons::warden
