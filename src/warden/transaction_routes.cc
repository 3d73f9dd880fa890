#include <nlohmann/json.hpp>

#include "pons/sandbox/wire.h"
#include "route_words.h"
#include "routes.h"

namespace pons::warden {

namespace {

using namespace sandbox;

Result<std::string> text_in(const Json& body, const char* name) {
  if (!body.is_object() || !body.contains(name)) return std::string();
  if (!body[name].is_string())
    return make_error(ErrorCode::kInvalid, "read body", std::string(name) + " must be text");
  return body[name].get<std::string>();
}

Task<Result<void>> checkpoint(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto name, text_in(body, "name"));
  CO_TRY(const auto taken, co_await provider.checkpoint(words[0], std::move(name)));
  respond_json(exchange, 201, {{"name", taken}});
  co_return {};
}

Task<Result<void>> rollback(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY_VOID(co_await provider.rollback(words[0], words[1]));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> commit(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY_VOID(co_await provider.commit(words[0], words[1]));
  respond_empty(exchange);
  co_return {};
}

Task<Result<void>> fork_sandbox(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto request, from_json<CreateRequest>(body));
  CO_TRY(const auto info, co_await provider.fork(words[0], std::move(request)));
  respond_json(exchange, 201, to_json(info));
  co_return {};
}

Task<Result<void>> snapshot(Provider& provider, http::Exchange& exchange, Words words) {
  CO_TRY(const auto body, co_await read_json_body(exchange));
  CO_TRY(auto name, text_in(body, "template"));
  CO_TRY(const auto info, co_await provider.snapshot(words[0], std::move(name)));
  respond_json(exchange, 201, to_json(info));
  co_return {};
}

}  // namespace

void append_transaction_routes(Provider& provider, std::vector<http::Route>& routes) {
  const auto add = [&](std::string_view method, std::string_view pattern, RouteWork work) {
    routes.push_back({method, pattern, handler_of(provider, work)});
  };
  add("POST", "/sandboxes/{id}/checkpoints", checkpoint);
  add("POST", "/sandboxes/{id}/checkpoints/{name}/rollback", rollback);
  add("POST", "/sandboxes/{id}/checkpoints/{name}/commit", commit);
  add("POST", "/sandboxes/{id}/fork", fork_sandbox);
  add("POST", "/sandboxes/{id}/snapshot", snapshot);
}

}  // namespace pons::warden
