#include "pons/vault/routes.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/error_status.h"

namespace pons::vault {

namespace {

constexpr std::size_t kBodyBytesMax = 256 * 1024;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read request", std::move(message));
}

void respond(http::Exchange& exchange, const Json& body) {
  exchange.respond({.body = dump_json(body) + "\n"});
}

void respond(http::Exchange& exchange, const Error& error) {
  exchange.respond(http::error_response(error));
}

// The body as JSON, and its value taken out of it. Copies on the way are wiped where they can be
// reached.
struct ValueRequest {
  Json json;
  Secret value;
};

Result<ValueRequest> take_value(std::string body) {
  const Secret text(std::move(body));
  ValueRequest request{.json = TRY(parse_json(text.reveal(), {.depth = 8, .bytes = kBodyBytesMax})),
                       .value = Secret()};
  const auto value = request.json.is_object() ? request.json.find("value") : request.json.end();
  if (value == request.json.end() || !value->is_string())
    return wrong("the body is an object with \"value\", a text");
  request.value = Secret(std::move(value->get_ref<std::string&>()));
  request.json.erase("value");
  return request;
}

Result<void> refuse_other_keys(const Json& json, std::initializer_list<std::string_view> known) {
  for (const auto& [key, unused] : json.items())
    if (std::ranges::find(known, key) == known.end())
      return wrong(fmt::format("\"{}\" is not known here", key.substr(0, 64)));
  return {};
}

Result<NewCredential> new_credential(std::string_view name, std::string body) {
  ValueRequest request = TRY(take_value(std::move(body)));
  const Json& json = request.json;
  TRY_VOID(refuse_other_keys(json, {"preset", "bindings", "scrub"}));
  if (json.contains("preset") == json.contains("bindings"))
    return wrong("name either a preset or bindings");
  if (json.contains("preset") && !json["preset"].is_string()) return wrong("a preset is a name");
  if (json.contains("scrub") && !json["scrub"].is_boolean()) return wrong("scrub is true or false");
  NewCredential wanted{
      .name = std::string(name), .value = std::move(request.value), .bindings = {}};
  wanted.bindings = json.contains("preset") ? TRY(load_preset(json["preset"].get<std::string>()))
                                            : TRY(parse_bindings(json["bindings"]));
  wanted.scrub = json.value("scrub", true) ? Scrub::kOn : Scrub::kOff;
  return wanted;
}

Result<Json> described(const Vault& vault, std::string_view name) {
  return metadata(*TRY(vault.load(name)));
}

Result<Json> put(Vault& vault, std::string_view name, std::string body) {
  NewCredential wanted = TRY(new_credential(name, std::move(body)));
  TRY_VOID(vault.set(std::move(wanted)));
  return described(vault, name);
}

Result<Json> rotate(Vault& vault, std::string_view name, std::string body) {
  ValueRequest request = TRY(take_value(std::move(body)));
  TRY_VOID(refuse_other_keys(request.json, {"grace_seconds"}));
  Duration grace = kDefaultGrace;
  if (const auto seconds = request.json.find("grace_seconds"); seconds != request.json.end()) {
    constexpr std::uint64_t kSecondsMax = 30ULL * 24 * 3600;
    if (!seconds->is_number_unsigned() || seconds->get<std::uint64_t>() > kSecondsMax)
      return wrong("grace_seconds is a number up to 30 days");
    grace = std::chrono::seconds(seconds->get<std::uint64_t>());
  }
  TRY_VOID(vault.rotate(name, std::move(request.value), grace));
  return described(vault, name);
}

Result<Json> remove(Vault& vault, std::string_view name) {
  TRY_VOID(vault.remove(name));
  return Json{{"removed", name}};
}

Json listed(const Vault& vault) {
  Json credentials = Json::array(), damaged = Json::array();
  for (const auto& credential : vault.list()) credentials.push_back(metadata(*credential));
  for (const DamagedCredential& bad : vault.damaged())
    damaged.push_back({{"name", bad.name}, {"file", bad.file}, {"reason", bad.reason}});
  return {{"credentials", std::move(credentials)}, {"damaged", std::move(damaged)}};
}

void answer(http::Exchange& exchange, Result<Json> result) {
  if (result)
    respond(exchange, *result);
  else
    respond(exchange, result.error());
}

using BodyWork = Result<Json> (*)(Vault&, std::string_view name, std::string body);

Task<> with_body(http::Exchange& exchange, Vault& vault, std::string name, BodyWork work) {
  auto body = co_await exchange.read_whole_body(kBodyBytesMax);
  if (!body)
    respond(exchange, body.error());
  else
    answer(exchange, work(vault, name, std::move(*body)));
}

Task<> done() {
  co_return;
}

}  // namespace

std::vector<http::Route> vault_routes(Vault& vault, Refusal refuse) {
  using http::Exchange;
  using http::PathValues;
  const auto with = [&vault, refuse](BodyWork work) {
    return [&vault, refuse, work](Exchange& exchange, const PathValues& values) {
      return refuse(exchange) ? done() : with_body(exchange, vault, std::string(values[0]), work);
    };
  };
  const auto plain = [&vault, refuse](auto work) {
    return [&vault, refuse, work](Exchange& exchange, const PathValues& values) {
      if (!refuse(exchange)) answer(exchange, work(vault, values));
      return done();
    };
  };
  return {
      {"GET", "/vault",
       plain([](Vault& v, const PathValues&) -> Result<Json> { return listed(v); })},
      {"GET", "/vault/{name}",
       plain([](Vault& v, const PathValues& values) { return described(v, values[0]); })},
      {"PUT", "/vault/{name}", with(put)},
      {"POST", "/vault/{name}/rotate", with(rotate)},
      {"DELETE", "/vault/{name}",
       plain([](Vault& v, const PathValues& values) { return remove(v, values[0]); })},
  };
}

}  // namespace pons::vault
