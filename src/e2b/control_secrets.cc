// Secrets of a project. Their values go in and never come out; egress puts them into requests.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "control_request.h"
#include "listing.h"
#include "pons/http/query.h"
#include "shapes.h"

namespace pons::e2b {

namespace {

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "read request", std::move(message));
}

Result<void> check_secret(const Json& body) {
  const auto value = body.find("value");
  if (value == body.end() || !value->is_string()) return wrong("value is a text");
  const auto metadata = body.find("metadata");
  if (metadata == body.end() || metadata->is_null()) return {};
  if (!metadata->is_object() ||
      !std::ranges::all_of(*metadata, [](const Json& text) { return text.is_string(); }))
    return wrong("metadata is an object of texts");
  return {};
}

Json question(const Caller& caller, const char* op) {
  return {{"op", op}, {"project", caller.project}};
}

void carry_value(Json& body, Json& question) {
  question["value"] = std::move(body["value"]);
  if (body.contains("metadata")) question["metadata"] = std::move(body["metadata"]);
}

Result<Json> secret_json(const Json& secret) {
  try {
    return Json{{"secretID", secret.at("id")},
                {"name", secret.at("name")},
                {"currentVersion", secret.at("version")},
                {"metadata", secret.at("metadata")},
                {"createdAt", rfc3339(secret.at("created_unix_ms").get<std::int64_t>())},
                {"updatedAt", rfc3339(secret.at("updated_unix_ms").get<std::int64_t>())}};
  } catch (const Json::exception&) {
    return make_error(ErrorCode::kInternal, "read secret", "the vault's answer has another shape");
  }
}

Task<Result<Json>> ask(Surroundings& surroundings, Json question) {
  CO_TRY(const auto text, co_await surroundings.ask_secrets(dump_json(question)));
  CO_TRY(auto answer, parse_json(text));
  if (!answer.is_object() || !answer.contains("secrets") || !answer["secrets"].is_array())
    co_return make_error(ErrorCode::kInternal, "read secret",
                         "the vault's answer has another shape");
  co_return std::move(answer["secrets"]);
}

Task<Result<http::Response>> ask_one(Surroundings& surroundings, int status, Json question) {
  CO_TRY(const auto found, co_await ask(surroundings, std::move(question)));
  if (found.empty()) co_return empty_response();
  CO_TRY(const auto secret, secret_json(found.front()));
  co_return json_response(status, secret);
}

// Names may hold anything.
Result<std::string> decoded(const std::string& word) {
  auto name = http::percent_decode(word);
  if (!name) return make_error(ErrorCode::kNotFound, "find secret", "no such secret");
  return *std::move(name);
}

}  // namespace

Task<Result<http::Response>> ControlPlane::create_secret(Request request) {
  CO_TRY(Json body, co_await request.read_json());
  CO_TRY_VOID(check_secret(body));
  if (!body.contains("name") || !body["name"].is_string()) co_return wrong("name is a text");
  Json create = question(request.caller, "create");
  create["name"] = body["name"];
  carry_value(body, create);
  co_return co_await ask_one(surroundings_, 201, std::move(create));
}

Task<Result<http::Response>> ControlPlane::update_secret(Request request) {
  CO_TRY(Json body, co_await request.read_json());
  CO_TRY_VOID(check_secret(body));
  Json update = question(request.caller, "update");
  CO_TRY(update["secret"], decoded(request.word));
  carry_value(body, update);
  co_return co_await ask_one(surroundings_, 200, std::move(update));
}

Task<Result<http::Response>> ControlPlane::inspect_secret(Request request) {
  Json find = question(request.caller, "find");
  CO_TRY(find["secret"], decoded(request.word));
  co_return co_await ask_one(surroundings_, 200, std::move(find));
}

Task<Result<http::Response>> ControlPlane::remove_secret(Request request) {
  Json remove = question(request.caller, "remove");
  CO_TRY(remove["secret"], decoded(request.word));
  co_return co_await ask_one(surroundings_, 204, std::move(remove));
}

Task<Result<http::Response>> ControlPlane::list_secrets(Request request) {
  CO_TRY(const auto all, co_await ask(surroundings_, question(request.caller, "list")));
  std::map<Place, Json, std::greater<>> secrets;
  for (const Json& one : all) {
    CO_TRY(auto secret, secret_json(one));
    secrets.emplace(Place{.created_unix_ms = one["created_unix_ms"], .id = one["id"]},
                    std::move(secret));
  }
  co_return page_response(std::move(secrets), request.exchange.request().query());
}

}  // namespace pons::e2b
