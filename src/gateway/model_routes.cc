#include <set>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "callers.h"
#include "pons/base/json.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "routes.h"

namespace pons::gateway {

namespace {

using models::Protocol;

constexpr std::string_view kModelsPath = "/v1/models/";

// In the shape of the endpoint's own protocol.
Task<> refuse_caller(http::Exchange& exchange, Protocol protocol, const Error& error) {
  ClientSide client(exchange, protocol, new_request_id());
  co_await client.refuse({.kind = error.code == ErrorCode::kDenied
                                      ? models::Failing::kAuthentication
                                      : models::Failing::kOverloaded,
                          .message = error.message,
                          .code = "invalid_api_key"});
}

using Answer = Task<> (*)(Models&, http::Exchange&, Caller);

template <Protocol protocol>
Task<> call(Models& models, http::Exchange& exchange, Caller caller) {
  return answer_model_call(models, exchange, protocol, std::move(caller));
}

// The list has the fields that both SDKs look for.
std::string model_entry(std::string_view name) {
  return fmt::format(
      R"({{"id":{0},"type":"model","object":"model","display_name":{0},"owned_by":"pons",)"
      R"("created":0,"created_at":"1970-01-01T00:00:00Z"}})",
      dump_json(name));
}

// Of a pattern, the models that a price is known of.
std::set<std::string> names_of(const Models& models) {
  std::set<std::string> names;
  for (const std::string& name : models.routing.model_names()) {
    if (!name.ends_with('*')) names.insert(name);
    if (name.size() < 2 || !name.ends_with('*')) continue;
    const auto& priced = models.book.prices().all();
    const std::string_view begin = std::string_view(name).substr(0, name.size() - 1);
    for (auto one = priced.lower_bound(begin); one != priced.end() && one->first.starts_with(begin);
         ++one)
      names.insert(one->first);
  }
  return names;
}

Task<> list_models(Models& models, http::Exchange& exchange, Caller) {
  std::string entries;
  const std::set<std::string> names = names_of(models);
  for (const std::string& name : names)
    entries += fmt::format("{}{}", entries.empty() ? "" : ",", model_entry(name));
  const auto quoted = [](const std::string& name) { return dump_json(name); };
  exchange.respond(
      {.body = fmt::format(
           R"({{"object":"list","data":[{}],"has_more":false,"first_id":{},"last_id":{}}})",
           entries, names.empty() ? "null" : quoted(*names.begin()),
           names.empty() ? "null" : quoted(*names.rbegin()))});
  co_return;
}

// Whatever can be called is there, also what no list names.
Task<> tell_model(Models& models, http::Exchange& exchange, Caller) {
  constexpr std::size_t kNameBytesMax = 128;
  const auto name = http::percent_decode(exchange.request().path().substr(kModelsPath.size()));
  if (name && name->size() <= kNameBytesMax && models.routing.candidates(*name, "")) {
    exchange.respond({.body = model_entry(*name)});
    co_return;
  }
  const bool is_anthropic = exchange.request().find("anthropic-version").has_value();
  ClientSide client(exchange, is_anthropic ? Protocol::kMessages : Protocol::kChat,
                    new_request_id());
  co_await client.refuse({.kind = models::Failing::kNotFound,
                          .message = "there is no model of that name here",
                          .code = "model_not_found"});
}

Task<> answer_caller(Models& models, Protocol protocol, Answer answer, http::Exchange& exchange) {
  auto caller = co_await identify_caller(models, exchange);
  if (!caller)
    co_await refuse_caller(exchange, protocol, caller.error());
  else
    co_await answer(models, exchange, std::move(*caller));
}

http::RouteHandler handler(Models& models, Protocol protocol, Answer answer) {
  return [&models, protocol, answer](http::Exchange& exchange, const http::PathValues&) {
    return answer_caller(models, protocol, answer, exchange);
  };
}

}  // namespace

std::vector<http::Route> model_routes(Models& models) {
  using enum Protocol;
  return {{"POST", "/v1/messages", handler(models, kMessages, call<kMessages>)},
          {"POST", "/v1/messages/count_tokens", handler(models, kMessages, answer_token_count)},
          {"POST", "/v1/chat/completions", handler(models, kChat, call<kChat>)},
          {"POST", "/v1/responses", handler(models, kResponses, call<kResponses>)},
          {"GET", "/v1/models", handler(models, kChat, list_models)},
          {"GET", "/v1/models/{model}", handler(models, kChat, tell_model)},
          {"GET", "/v1/models/{provider}/{model}", handler(models, kChat, tell_model)},
          {"GET", "/v1/models/{provider}/{author}/{model}", handler(models, kChat, tell_model)}};
}

}  // namespace pons::gateway
