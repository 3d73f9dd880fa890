#include <fmt/format.h>

#include "callers.h"
#include "pons/http/error_status.h"
#include "routes.h"

namespace pons::gateway {

namespace {

using models::Protocol;

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
      R"({{"id":"{0}","type":"model","object":"model","display_name":"{0}","owned_by":"pons",)"
      R"("created":0,"created_at":"1970-01-01T00:00:00Z"}})",
      name);
}

Task<> list_models(Models& models, http::Exchange& exchange, Caller) {
  std::string entries;
  std::vector<std::string> names = models.routing.model_names();
  std::erase_if(names, [](const std::string& name) { return name.ends_with('*'); });
  for (const std::string& name : names)
    entries += fmt::format("{}{}", entries.empty() ? "" : ",", model_entry(name));
  const auto quoted = [](const std::string& name) { return fmt::format("\"{}\"", name); };
  exchange.respond(
      {.body = fmt::format(
           R"({{"object":"list","data":[{}],"has_more":false,"first_id":{},"last_id":{}}})",
           entries, names.empty() ? "null" : quoted(names.front()),
           names.empty() ? "null" : quoted(names.back()))});
  co_return;
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
          {"GET", "/v1/models", handler(models, kChat, list_models)}};
}

}  // namespace pons::gateway
