#include <algorithm>

#include <fmt/format.h>

#include "callers.h"
#include "pons/base/json_place.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/supervisor/role_runtime.h"
#include "routes.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kRequestBytesMax = 64 * 1024;
constexpr std::int64_t kDayMs = 24LL * 60 * 60 * 1'000;
constexpr std::uint64_t kSoftPercentMax = 100;
constexpr std::size_t kWarningsMax = 100;
constexpr std::int64_t kRows = 1'000;  // of a list, unless asked for others
constexpr std::uint64_t kRowsMax = 5'000;
constexpr std::uint64_t kSkipMax = 1'000'000'000;

struct Answer {
  int status = 200;
  Json body;
};

Json to_json(const budget::Limit& limit) {
  return {{"what", budget::name_of(limit.what)},
          {"amount", limit.amount},
          {"window", budget::name_of(limit.window)}};
}

// With what sandboxes that run have come to.
std::int64_t used_of(Models& models, const budget::Key& key, const budget::Limit& limit) {
  budget::Amounts all = models.book.used(key.id, limit.window);
  all += models.book.held(key.id);
  return all[limit.what];
}

// The limits of a key that are used up, or nearly.
void add_warnings(Models& models, const budget::Key& key, Json& list) {
  for (const budget::Limit& limit : key.limits) {
    const std::int64_t used = used_of(models, key, limit);
    if (!budget::is_past_soft(used, limit.amount, key.soft_percent)) continue;
    Json warning = to_json(limit);
    warning["key"] = key.id;
    warning["used"] = used;
    list.push_back(std::move(warning));
  }
}

// With what each limit has used up so far.
Json to_json(Models& models, const budget::Key& key) {
  Json json = {{"id", key.id},
               {"project", key.project_id},
               {"parent", key.parent_id},
               {"kind", budget::name_of(key.kind)},
               {"name", key.name},
               {"can_call", !key.hash.empty()},
               {"soft_percent", key.soft_percent},
               {"models", key.models},
               {"created_unix_ms", key.created_ms},
               {"expires_unix_ms", nullptr},
               {"revoked_unix_ms", nullptr},
               {"limits", Json::array()},
               {"warnings", Json::array()}};
  if (!key.revoked_ms) add_warnings(models, key, json["warnings"]);
  if (key.expires_ms) json["expires_unix_ms"] = *key.expires_ms;
  if (key.revoked_ms) json["revoked_unix_ms"] = *key.revoked_ms;
  for (const budget::Limit& limit : key.limits) {
    Json entry = to_json(limit);
    entry["used"] = used_of(models, key, limit);
    json["limits"].push_back(std::move(entry));
  }
  return json;
}

std::string date_text(std::int64_t day) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

Json to_json(const budget::UsageRow& row) {
  return {{"key", row.node_id},
          {"agent", row.agent.empty() ? Json() : Json(row.agent)},
          {"model", row.model},
          {"day", date_text(row.day)},
          {"requests", row.requests},
          {"input_tokens", row.usage.input},
          {"cache_read_tokens", row.usage.cache_read},
          {"cache_write_tokens", row.usage.cache_write},
          {"cache_write_hour_tokens", row.usage.cache_write_hour},
          {"output_tokens", row.usage.output},
          {"reasoning_tokens", row.usage.reasoning.value_or(0)},
          {"sandbox_seconds", row.sandbox_seconds},
          {"cost_nano_usd", row.cost_nano}};
}

Result<std::string> query_text(const http::Exchange& exchange, std::string_view name,
                               std::string_view otherwise = {}) {
  const auto found = TRY(http::find_query(exchange.request().query(), name));
  return found ? *found : std::string(otherwise);
}

Result<std::vector<std::string>> texts_at(const JsonPlace& place) {
  constexpr std::size_t kEntriesMax = 100;
  TRY_VOID(place.expect_list(kEntriesMax));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < place.value.size(); ++i) texts.push_back(TRY(place.at(i).text()));
  return texts;
}

Result<std::int64_t> rows_wanted(const http::Exchange& exchange) {
  const std::string text = TRY(query_text(exchange, "limit"));
  if (text.empty()) return kRows;
  const auto rows = parse_decimal(text);
  if (!rows || *rows < 1 || *rows > kRowsMax)
    return make_error(ErrorCode::kInvalid, "read query",
                      fmt::format("limit is a number from 1 to {}", kRowsMax));
  return static_cast<std::int64_t>(*rows);
}

// Whose limits they are: of one that has sandboxes, or of another one.
enum class Of : std::uint8_t { kOneWithSandboxes, kOther };

Result<std::vector<budget::Limit>> limits_at(const JsonPlace& place, Of of) {
  auto limits = budget::parse_limits(dump_json(place.value));
  if (!limits) return place.refuse(limits.error().message);
  // It would never be reached.
  if (of == Of::kOther && std::ranges::find(*limits, budget::What::kSandboxSeconds,
                                            &budget::Limit::what) != limits->end())
    return place.refuse(
        "time of sandboxes is counted for the project and for its agents: set this limit on the "
        "project's own key, which `pons keys ls` shows as org, or on that of an agent");
  return std::move(*limits);
}

constexpr std::uint64_t kLatestMs = 4'102'444'800'000;  // the year 2100

Result<budget::KeyWish> parse_wish(const Json& body) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"project", "parent", "kind", "name", "limits", "soft_percent",
                                "models", "expires_unix_ms", "secret"}));
  budget::KeyWish wish{.project_id = "default"};
  if (place.has("project")) wish.project_id = TRY(place.at("project").text());
  if (place.has("parent")) wish.parent_id = TRY(place.at("parent").text());
  if (!place.has("name")) return place.refuse("\"name\" is missing");
  wish.name = TRY(place.at("name").text());
  if (place.has("kind")) {
    const auto kind = budget::parse_kind(TRY(place.at("kind").text()));
    if (!kind) return place.at("kind").refuse("must be team, user, agent, schedule or session");
    wish.kind = *kind;
  }
  if (place.has("limits")) wish.limits = TRY(limits_at(place.at("limits"), Of::kOther));
  if (place.has("soft_percent"))
    wish.soft_percent = static_cast<int>(TRY(place.at("soft_percent").number(1, kSoftPercentMax)));
  if (place.has("models")) wish.models = TRY(texts_at(place.at("models")));
  if (place.has("expires_unix_ms"))
    wish.expires_ms =
        static_cast<std::int64_t>(TRY(place.at("expires_unix_ms").number(1, kLatestMs)));
  if (place.has("secret") && !TRY(place.at("secret").flag()))
    wish.secrecy = budget::KeyWish::Secrecy::kNone;
  return wish;
}

Result<budget::KeyChange> parse_change(const Json& body, Of of) {
  const JsonPlace place{.value = body, .pointer = {}};
  TRY_VOID(place.expect_object({"name", "limits", "soft_percent", "models", "expires_unix_ms"}));
  budget::KeyChange change;
  if (place.has("name")) change.name = TRY(place.at("name").text());
  if (place.has("limits")) change.limits = TRY(limits_at(place.at("limits"), of));
  if (place.has("soft_percent"))
    change.soft_percent =
        static_cast<int>(TRY(place.at("soft_percent").number(1, kSoftPercentMax)));
  if (place.has("models")) change.models = TRY(texts_at(place.at("models")));
  if (place.has("expires_unix_ms"))
    change.expires_ms =
        static_cast<std::int64_t>(TRY(place.at("expires_unix_ms").number(1, kLatestMs)));
  return change;
}

Task<Result<Answer>> list_keys(Models& models, http::Exchange& exchange, std::string) {
  budget::KeyList which;
  CO_TRY(which.project_id, query_text(exchange, "project", "default"));
  CO_TRY(which.parent_id, query_text(exchange, "parent"));
  CO_TRY(which.after, query_text(exchange, "page"));
  CO_TRY(which.rows_max, rows_wanted(exchange));
  CO_TRY(const std::string state, query_text(exchange, "state", "all"));
  if (state != "all" && state != "good")
    co_return make_error(ErrorCode::kInvalid, "read query", "state is all or good");
  if (state == "good") which.which = budget::KeyList::Which::kGood;
  CO_TRY_VOID(co_await models.book.keys().ensure_root(which.project_id));
  const std::int64_t rows_max = which.rows_max;
  CO_TRY(const auto keys, co_await models.book.keys().list(std::move(which)));
  Json list = Json::array();
  for (const budget::Key& key : keys) list.push_back(to_json(models, key));
  Json next = std::ssize(keys) < rows_max ? Json() : Json(keys.back().id);
  co_return Answer{.body = {{"keys", std::move(list)}, {"next_page", std::move(next)}}};
}

Task<Result<Answer>> create_key(Models& models, http::Exchange& exchange, std::string) {
  CO_TRY(const auto text, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const Json body, parse_json(text));
  CO_TRY(auto wish, parse_wish(body));
  CO_TRY(const auto made, co_await models.book.keys().create(std::move(wish)));
  Json json = to_json(models, made.key);
  if (!made.text.empty()) json["key"] = made.text.reveal();
  co_return Answer{.status = 201, .body = std::move(json)};
}

Task<Result<Answer>> change_key(Models& models, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto text, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const Json body, parse_json(text));
  const auto before = models.book.keys().find(id);
  const bool has_sandboxes = before && budget::has_sandboxes(**before);
  CO_TRY(auto change, parse_change(body, has_sandboxes ? Of::kOneWithSandboxes : Of::kOther));
  CO_TRY(const auto key, co_await models.book.keys().update(std::move(id), std::move(change)));
  co_return Answer{.body = to_json(models, key)};
}

Task<Result<Answer>> revoke_key(Models& models, http::Exchange&, std::string id) {
  CO_TRY_VOID(co_await models.book.keys().revoke(id));
  co_return Answer{.body = {{"revoked", id}}};
}

// "2026-11-16", as a number of days; the other one when there is none.
Result<std::int64_t> day_of(const std::string& text, std::int64_t otherwise) {
  if (text.empty()) return otherwise;
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int read = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &read) == 3 &&
      static_cast<std::size_t>(read) == text.size()) {
    const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                           std::chrono::day(day)};
    if (date.ok()) return std::chrono::sys_days(date).time_since_epoch().count();
  }
  return make_error(ErrorCode::kInvalid, "read query", "a day is YYYY-MM-DD");
}

Result<budget::UsageQuery> usage_query(const http::Exchange& exchange) {
  const std::int64_t today = std::chrono::duration_cast<std::chrono::milliseconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count() /
                             kDayMs;
  constexpr std::int64_t kDays = 30;
  budget::UsageQuery query;
  query.project_id = TRY(query_text(exchange, "project", "default"));
  query.node_id = TRY(query_text(exchange, "key"));
  query.model = TRY(query_text(exchange, "model"));
  query.agent = TRY(query_text(exchange, "agent"));
  const std::string by = TRY(query_text(exchange, "by", query.agent.empty() ? "key" : "agent"));
  if (by != "key" && by != "agent")
    return make_error(ErrorCode::kInvalid, "read query", "by is key or agent");
  if (by == "agent" || !query.agent.empty()) query.of = budget::UsageQuery::Of::kAgents;
  const std::string from = TRY(query_text(exchange, "from"));
  const std::string to = TRY(query_text(exchange, "to"));
  query.first_day = TRY(day_of(from, today - kDays));
  query.last_day = TRY(day_of(to, today));
  query.rows_max = TRY(rows_wanted(exchange));
  if (const std::string page = TRY(query_text(exchange, "page")); !page.empty()) {
    const auto skip = parse_decimal(page);
    if (!skip || *skip > kSkipMax)
      return make_error(ErrorCode::kInvalid, "read query", "page is what next_page said");
    query.skip = static_cast<std::int64_t>(*skip);
  }
  return query;
}

// `query.node_id` and those below it; empty: all of the project.
Task<Result<Answer>> tell_usage(Models& models, budget::UsageQuery query) {
  const std::string project = query.project_id;
  const std::string above = query.node_id;
  const std::int64_t rows_max = query.rows_max;
  const std::int64_t skipped = query.skip;
  CO_TRY(const auto rows, co_await models.book.usage(std::move(query)));
  Json list = Json::array();
  for (const budget::UsageRow& row : rows) list.push_back(to_json(row));
  Json warnings = Json::array();
  models.book.keys().for_each(project, above, [&](const budget::Key& key) {
    if (warnings.size() < kWarningsMax) add_warnings(models, key, warnings);
  });
  Json next = std::ssize(rows) < rows_max ? Json() : Json(fmt::format("{}", skipped + rows_max));
  co_return Answer{.body = {{"usage", std::move(list)},
                            {"warnings", std::move(warnings)},
                            {"next_page", std::move(next)}}};
}

Task<Result<Answer>> usage_for_operator(Models& models, http::Exchange& exchange, std::string) {
  CO_TRY(auto query, usage_query(exchange));
  co_return co_await tell_usage(models, std::move(query));
}

// A caller sees its own key and those below it.
Task<Result<Answer>> usage_for_caller(Models& models, http::Exchange& exchange, std::string) {
  CO_TRY(const Caller caller, co_await identify_caller(models, exchange));
  CO_TRY(const budget::Key* own, models.book.keys().find(caller.key));
  CO_TRY(auto query, usage_query(exchange));
  query.project_id = own->project_id;
  if (query.node_id.empty()) query.node_id = own->id;
  const auto asked = models.book.keys().find(query.node_id);
  const std::string path = asked ? "/" + models.book.keys().path_of(**asked) + "/" : std::string();
  if (path.find("/" + own->id + "/") == std::string::npos)
    co_return make_error(ErrorCode::kNotFound, "find key", "there is no such key");
  co_return co_await tell_usage(models, std::move(query));
}

Task<Result<Answer>> list_models(Models& models, http::Exchange&, std::string) {
  Json list = Json::array();
  for (const auto& [name, route] : models.routing.settings().routes)
    for (const Deployment& deployment : route.deployments) {
      const auto price = models.book.prices().find(deployment.model);
      Json entry = {{"name", name},
                    {"provider", deployment.provider},
                    {"model", deployment.model},
                    {"input_nano_usd_per_million", nullptr},
                    {"output_nano_usd_per_million", nullptr}};
      if (price) {
        entry["input_nano_usd_per_million"] = (*price)->tokens.input;
        entry["output_nano_usd_per_million"] = (*price)->tokens.output;
      }
      list.push_back(std::move(entry));
    }
  for (const auto& [name, provider] : models.routing.settings().providers)
    for (const std::string& pattern : provider.serves)
      list.push_back({{"name", pattern}, {"provider", name}, {"model", pattern}});
  co_return Answer{.body = {{"models", std::move(list)}}};
}

using Work = Task<Result<Answer>> (*)(Models&, http::Exchange&, std::string);
enum class Who : std::uint8_t { kOperator, kCallers };

Task<> answer(Who who, Work work, Models& models, http::Exchange& exchange, std::string id) {
  if (who == Who::kOperator && supervisor::refuse_unless_operator(exchange)) co_return;
  auto done = co_await work(models, exchange, std::move(id));
  if (done)
    exchange.respond({.status = done->status, .body = dump_json(done->body) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> operator_routes(Models& models) {
  const auto handler = [&models](Who who, Work work) -> http::RouteHandler {
    return [&models, who, work](http::Exchange& exchange, const http::PathValues& values) {
      return answer(who, work, models, exchange, values.empty() ? "" : std::string(values.front()));
    };
  };
  using enum Who;
  return {{"GET", "/model-keys", handler(kOperator, list_keys)},
          {"POST", "/model-keys", handler(kOperator, create_key)},
          {"PATCH", "/model-keys/{id}", handler(kOperator, change_key)},
          {"DELETE", "/model-keys/{id}", handler(kOperator, revoke_key)},
          {"GET", "/model-usage", handler(kOperator, usage_for_operator)},
          {"GET", "/models", handler(kOperator, list_models)},
          {"GET", "/x/usage", handler(kCallers, usage_for_caller)}};
}

}  // namespace pons::gateway
