#include <algorithm>

#include <fmt/format.h>

#include "model_call.h"
#include "refusals.h"

namespace pons::gateway {

namespace {

constexpr Duration kCountTime = std::chrono::seconds(20);
constexpr std::size_t kAnswerBytesMax = 64 * 1024;

// What the provider itself says; nothing when it does not.
Task<std::optional<std::string>> ask_provider(Provider& provider, TimePoint now, std::string model,
                                              const ModelRequest& request) {
  const auto key = provider.pick_key(now);
  if (!key) co_return std::nullopt;
  http::ClientRequest sent{
      .method = "POST",
      .target = endpoint_of(provider.settings().url, request.protocol) + "/count_tokens",
      .fields = request.fields,
      .body = request.body};
  models::rename_model(request.protocol, sent.body, request.facts, model);
  sent.fields.emplace_back("Content-Type", "application/json");
  const auto is_version = [](const auto& field) { return field.first == "anthropic-version"; };
  if (std::ranges::none_of(request.fields, is_version))
    sent.fields.emplace_back("anthropic-version", "2023-06-01");
  provider.add_key_field(*key, sent.fields);
  auto answered = co_await provider.send(std::move(sent));
  if (!answered || answered->answer->status() != 200) co_return std::nullopt;
  std::string body;
  while (body.size() <= kAnswerBytesMax) {
    const auto piece = co_await answered->answer->read_body();
    if (!piece) co_return std::nullopt;
    if (piece->empty()) co_return body;
    body += *piece;
  }
  co_return std::nullopt;
}

// It costs no money and no tokens, and is a request all the same: the provider has limits, too.
Result<budget::Call> begin_count(Models& models, const Caller& caller, const std::string& asked,
                                 const Deployment& deployment, budget::Refused* refused) {
  static const budget::Price kNothing{};
  return models.book.begin_call({.node_id = caller.key,
                                 .model = deployment.model,
                                 .asked = asked,
                                 .provider = deployment.provider,
                                 .is_sent = true,
                                 .price = &kNothing},
                                refused);
}

}  // namespace

Task<> answer_token_count(Models& models, http::Exchange& exchange, Caller caller) {
  constexpr auto kProtocol = models::Protocol::kMessages;
  ClientSide client(exchange, kProtocol, new_request_id());
  const auto request = co_await read_model_request(exchange, kProtocol, models.bodies);
  if (!request) {
    co_await client.refuse(request.error());
    co_return;
  }
  const auto line = models.routing.candidates(request->facts.model, caller.key);
  if (!line) {
    co_await client.refuse({.kind = models::Failing::kNotFound, .message = line.error().message});
    co_return;
  }
  const Deployment& deployment = line->front()->deployment;
  Provider* const provider = models.answerers.find(deployment.provider)->second.provider.get();
  const auto key = models.book.keys().find(caller.key);
  const bool may_ask = key && (models.book.keys().may_call(**key, request->facts.model) ||
                               models.book.keys().may_call(**key, deployment.model));
  if (provider != nullptr && provider->settings().speaks(kProtocol) && may_ask) {
    budget::Refused refused;
    auto asked = begin_count(models, caller, request->facts.model, deployment, &refused);
    if (!asked) {
      models.metrics.count_refusal(asked.error().code);
      co_await client.refuse(failure_of_refusal(asked.error(), refused, wall_ms()));
      co_return;
    }
    auto counted = co_await linux::within(
        models.loop, models.loop.now() + kCountTime,
        ask_provider(*provider, models.loop.now(), deployment.model, *request));
    const bool is_counted = counted && *counted;
    (void)asked->settle({}, is_counted ? budget::Outcome::kDone : budget::Outcome::kFailed);
    if (is_counted) {
      client.answer(std::move(**counted));
      co_return;
    }
  }
  client.set_fields({{"x-pons-estimate", "true"}});
  client.answer(fmt::format("{{\"input_tokens\":{}}}",
                            models::most_prompt_tokens(request->facts, request->body_bytes)));
}

}  // namespace pons::gateway
