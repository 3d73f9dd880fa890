#include "keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "pons/http/query.h"

namespace pons::front {

namespace {

constexpr std::size_t kListBytesMax = 64 << 20;
constexpr Duration kAskAgain = std::chrono::milliseconds(200);
// The brain answers at least every 25 s. What it said last holds this long without it.
constexpr Duration kStale = std::chrono::seconds(90);
constexpr std::string_view kFirstProject = "default";
constexpr std::string_view kOperator = "admin";  // in place of a key's id

std::string_view bearer(const http::RequestHead& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const auto authorization = request.find("Authorization").value_or("");
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size()) : "";
}

// The words in front of a key say whose it is to people and to scanners of leaked keys: "pons_", or
// "e2b_" for SDKs that insist on it.
std::string_view digits_of(std::string_view key) {
  const auto mark = key.rfind('_');
  return mark == std::string_view::npos ? key : key.substr(mark + 1);
}

}  // namespace

std::string_view shown_key(const http::RequestHead& request) {
  const auto key = request.find("X-API-KEY").value_or("");
  return key.empty() ? bearer(request) : key;
}

bool Identity::may(std::string_view scope) const {
  const auto has = [this](std::string_view word) {
    return std::ranges::find(scopes, word) != scopes.end();
  };
  return has("admin") || has(scope) || (scope == "read" && (has("agents") || has("sessions")));
}

bool Keys::accept(std::string_view body) {
  const auto json = parse_json(body, {.depth = 8, .bytes = kListBytesMax});
  if (!json) return false;
  try {
    std::map<std::string, Identity, std::less<>> by_hash;
    const auto limits = json->value("requests_per_second", std::map<std::string, std::int64_t>());
    const auto limit_of = [&](const std::string& project) {
      const auto found = limits.find(project);
      return found == limits.end() ? std::nullopt : std::optional(found->second);
    };
    for (const Json& key : json->at("keys"))
      by_hash[key.at("hash").get<std::string>()] = {
          .key = key.at("id").get<std::string>(),
          .project = key.at("project").get<std::string>(),
          .scopes = key.at("scopes").get<std::vector<std::string>>(),
          .session = key.value("session", ""),
          .requests_per_second = limit_of(key.at("project").get<std::string>())};
    generation_ = json->at("generation").get<std::string>();
    by_hash_ = std::move(by_hash);
  } catch (const Json::exception&) {
    return false;
  }
  heard_ = loop_.now();
  changed_.set();  // wakes those who wait now
  changed_.reset();
  return true;
}

Task<> Keys::wait_until_gone(std::string key) {
  const auto is_there = [&] {
    return key == kOperator || std::ranges::any_of(by_hash_, [&](const auto& entry) {
             return entry.second.key == key;
           });
  };
  while (is_there()) co_await changed_.wait(kNever);
}

Task<Result<void>> Keys::ask(http::Client& brain) {
  CO_TRY(auto response,
         co_await brain.send({.target = "/keys?after=" + http::percent_encode(generation_)}));
  CO_TRY(const auto body, co_await response.read_whole_body(kListBytesMax));
  if (response.status() == 200 && accept(body)) co_return {};
  co_return make_error(ErrorCode::kUnavailable, "ask for keys",
                       fmt::format("the brain answered {}", response.status()));
}

Task<> Keys::follow(http::Client& brain) {
  for (;;) {
    const auto asked = co_await ask(brain);
    if (asked) continue;
    LOG_WARN("the brain does not tell its keys", {"error", asked.error()});
    co_await loop_.sleep_for(kAskAgain);
  }
}

bool Keys::is_admin_token(std::string_view text) const {
  return !text.empty() && equal_constant_time(sha256_hex(text), admin_token_hash_);
}

bool Keys::is_admin(const http::RequestHead& request) const {
  return is_admin_token(bearer(request));
}

Result<Identity> Keys::identify(const http::RequestHead& request) const {
  const std::string_view key = shown_key(request);
  if (key.empty())
    return make_error(ErrorCode::kDenied, "identify",
                      "send an API key: X-API-KEY: KEY; `pons key create NAME` makes one");
  // The operator's token opens everything, in the first project.
  if (is_admin_token(key))
    return Identity{
        .key = std::string(kOperator), .project = std::string(kFirstProject), .scopes = {"admin"}};
  if (heard_ == TimePoint{} || loop_.now() - heard_ > kStale)
    return make_error(ErrorCode::kUnavailable, "identify",
                      "keys cannot be checked at this moment; try again");
  // By hash: how long the search takes tells of the hash, and nothing of a key.
  const auto found = by_hash_.find(sha256_hex(digits_of(key)));
  if (found == by_hash_.end())
    return make_error(ErrorCode::kDenied, "identify", "this API key is not valid");
  return found->second;
}

}  // namespace pons::front
