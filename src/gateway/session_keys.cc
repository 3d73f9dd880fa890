// Keys that the brain has made for harnesses: whoever runs in a sandbox calls models with one, and
// it is good there only.

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/http/error_status.h"
#include "routes.h"
#include "sandbox_bound_key.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kRequestBytesMax = 64 * 1024;
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kModelsMax = 8;
constexpr std::uint64_t kAmountMax = 1'000'000'000'000'000'000;
// A harness that works longer is given another one when it is started again.
constexpr std::int64_t kLifetimeMs = 2LL * 24 * 60 * 60 * 1'000;

struct Wish {
  std::string project;
  std::string agent;
  std::string session;
  std::string sandbox;
  std::vector<std::string> models;
  std::vector<budget::Limit> limits;
};

Result<std::string> name_at(const JsonPlace& place, const char* key) {
  if (!place.has(key)) return place.refuse(fmt::format("\"{}\" is missing", key));
  std::string name = TRY(place.at(key).text());
  if (name.empty() || name.size() > kNameBytesMax)
    return place.at(key).refuse(fmt::format("must be 1 to {} bytes", kNameBytesMax));
  return name;
}

Result<Wish> read_wish(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object(
      {"project", "agent", "session", "sandbox", "models", "cost_nano_usd", "tokens"}));
  Wish wish{.project = TRY(name_at(place, "project")),
            .agent = TRY(name_at(place, "agent")),
            .session = TRY(name_at(place, "session")),
            .sandbox = TRY(name_at(place, "sandbox"))};
  if (!place.has("models")) return place.refuse("\"models\" is missing");
  const JsonPlace models = place.at("models");
  TRY_VOID(models.expect_list(kModelsMax));
  for (std::size_t i = 0; i < models.value.size(); ++i)
    wish.models.push_back(TRY(models.at(i).text()));
  if (wish.models.empty()) return models.refuse("a key is for some model");
  const auto add = [&](const char* key, budget::What what) -> Result<void> {
    if (!place.has(key)) return {};
    wish.limits.push_back(
        {.what = what,
         .amount = static_cast<std::int64_t>(TRY(place.at(key).number(0, kAmountMax))),
         .window = budget::Window::kTotal});
    return {};
  };
  TRY_VOID(add("cost_nano_usd", budget::What::kMoney));
  TRY_VOID(add("tokens", budget::What::kTokens));
  return wish;
}

Task<Result<Json>> open_key(Models& models, http::Exchange& exchange, std::string) {
  CO_TRY(const auto text, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const Json body, parse_json(text));
  CO_TRY(auto wish, read_wish(body));
  budget::Keys& keys = models.book.keys();
  CO_TRY(const budget::Key above, co_await keys.ensure_agent(wish.project, wish.agent));
  const std::int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
  // One at a time: whoever had the last one is gone, or is to be.
  std::vector<std::string> former;
  const std::string name = bound_key_name(wish.session, wish.sandbox);
  keys.for_each(wish.project, above.id, [&](const budget::Key& key) {
    if (is_bound_key(key) && key.name == name) former.push_back(key.id);
  });
  for (std::string& id : former) CO_TRY_VOID(co_await keys.revoke(std::move(id)));
  budget::KeyWish order{.project_id = wish.project,
                        .parent_id = above.id,
                        .kind = budget::KeyKind::kSession,
                        .name = name,
                        .limits = std::move(wish.limits),
                        .models = std::move(wish.models),
                        .expires_ms = now_ms + kLifetimeMs};
  CO_TRY(const auto made, co_await keys.create(std::move(order)));
  co_return Json{{"id", made.key.id}, {"key", made.text.reveal()}};
}

// All that was settled for it.
Task<Result<Json>> tell_use(Models& models, http::Exchange&, std::string id) {
  CO_TRY(const budget::Key* key, models.book.keys().find(id));
  if (!is_bound_key(*key))
    co_return make_error(ErrorCode::kNotFound, "find key", "it is no session's key");
  CO_TRY(const auto rows,
         co_await models.book.usage({.project_id = key->project_id, .node_id = id}));
  models::Usage used;
  std::int64_t cost_nano = 0;
  std::int64_t requests = 0;
  for (const budget::UsageRow& row : rows) {
    used.input += row.usage.input;
    used.cache_read += row.usage.cache_read;
    used.cache_write += row.usage.cache_write + row.usage.cache_write_hour;
    used.output += row.usage.output;
    cost_nano += row.cost_nano;
    requests += row.requests;
  }
  co_return Json{
      {"input", used.input},   {"cache_read", used.cache_read}, {"cache_write", used.cache_write},
      {"output", used.output}, {"cost_nano_usd", cost_nano},    {"requests", requests}};
}

Task<Result<Json>> close_key(Models& models, http::Exchange&, std::string id) {
  CO_TRY(const budget::Key* key, models.book.keys().find(id));
  if (!is_bound_key(*key))
    co_return make_error(ErrorCode::kNotFound, "find key", "it is no session's key");
  CO_TRY_VOID(co_await models.book.keys().revoke(id));
  co_return Json{{"revoked", id}};
}

using Work = Task<Result<Json>> (*)(Models&, http::Exchange&, std::string);

Task<> answer(Work work, Models& models, http::Exchange& exchange, std::string id) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for the brain"));
    co_return;
  }
  const auto done = co_await work(models, exchange, std::move(id));
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> session_key_routes(Models& models) {
  const auto handler = [&models](Work work) -> http::RouteHandler {
    return [&models, work](http::Exchange& exchange, const http::PathValues& values) {
      return answer(work, models, exchange, values.empty() ? "" : std::string(values.front()));
    };
  };
  return {{"POST", "/session-keys", handler(open_key)},
          {"GET", "/session-keys/{id}", handler(tell_use)},
          {"DELETE", "/session-keys/{id}", handler(close_key)}};
}

}  // namespace pons::gateway
