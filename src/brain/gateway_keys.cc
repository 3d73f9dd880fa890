#include "gateway_keys.h"

#include "gateway_usage.h"
#include "pons/base/json_place.h"
#include "pons/http/error_status.h"

namespace pons::brain {

namespace {

constexpr std::size_t kAnswerBytesMax = 64 * 1024;

}  // namespace

GatewayKeys::GatewayKeys(linux::Loop& loop, http::Connector connector)
    : client_(loop, std::move(connector), "gateway",
              {.first_byte_time = std::chrono::seconds(10), .idle_connections = 8}) {}

Task<Result<std::string>> GatewayKeys::ask(std::string method, std::string target,
                                           std::string body) {
  CO_TRY(auto response, co_await client_.send({.method = std::move(method),
                                               .target = std::move(target),
                                               .fields = {{"content-type", "application/json"}},
                                               .body = std::move(body)}));
  CO_TRY(auto text, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of("ask for key", response.status(), text);
  co_return text;
}

Task<Result<guest::ModelKey>> GatewayKeys::open(guest::KeyWish wish) {
  Json order = {{"project", wish.project},
                {"agent", wish.agent},
                {"session", wish.session},
                {"sandbox", wish.sandbox},
                {"models", Json::array({wish.model})}};
  if (wish.cost_nano > 0) order["cost_nano_usd"] = wish.cost_nano;
  if (wish.tokens > 0) order["tokens"] = wish.tokens;
  CO_TRY(const auto text, co_await ask("POST", "/session-keys", dump_json(order)));
  CO_TRY(const Json json, parse_json(text));
  const JsonPlace place{.value = json, .pointer = {}};
  if (!json.is_object() || !place.has("id") || !place.has("key"))
    co_return place.refuse("it says too little");
  guest::ModelKey key;
  CO_TRY(key.id, place.at("id").text());
  CO_TRY(key.text, place.at("key").text());
  co_return key;
}

Task<Result<session::Usage>> GatewayKeys::used(std::string id) {
  CO_TRY(const auto text, co_await ask("GET", "/session-keys/" + id, ""));
  co_return read_gateway_usage(text);
}

Task<Result<void>> GatewayKeys::close(std::string id) {
  const auto closed = co_await ask("DELETE", "/session-keys/" + id, "");
  if (!closed && closed.error().code != ErrorCode::kNotFound &&
      closed.error().code != ErrorCode::kDenied)
    co_return closed.error();
  co_return {};
}

}  // namespace pons::brain
