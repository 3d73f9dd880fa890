#include "pons/vault/secret_routes.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/http/error_status.h"

namespace pons::vault {

namespace {

constexpr std::size_t kBodyBytesMax = 256 * 1024;

Json description(const ProjectSecret& secret) {
  return {{"id", secret.id},
          {"name", secret.name},
          {"version", secret.version},
          {"metadata", secret.metadata},
          {"created_unix_ms", secret.created_unix_ms},
          {"updated_unix_ms", secret.updated_unix_ms}};
}

Secret take_value(Json& body) {
  const auto value = body.find("value");
  if (value == body.end() || !value->is_string()) return {};
  Secret taken(std::move(value->get_ref<std::string&>()));
  body.erase("value");
  return taken;
}

std::optional<ProjectSecrets::Metadata> metadata_of(const Json& body) {
  const auto found = body.find("metadata");
  if (found == body.end() || found->is_null()) return std::nullopt;
  return found->get<ProjectSecrets::Metadata>();
}

Result<Json> work_on(ProjectSecrets& secrets, std::string text) {
  const Secret wiped(std::move(text));
  Json body = TRY(parse_json(wiped.reveal(), {.depth = 8, .bytes = kBodyBytesMax}));
  Json found = Json::array();
  try {
    Secret value = take_value(body);
    const auto op = body.at("op").get<std::string>();
    const auto project = body.at("project").get<std::string>();
    const auto word = body.value("secret", "");
    if (op == "list") {
      for (const auto& secret : secrets.list(project)) found.push_back(description(*secret));
    } else if (op == "create") {
      found.push_back(description(
          *TRY(secrets.create(project, body.at("name").get<std::string>(), std::move(value),
                              metadata_of(body).value_or(ProjectSecrets::Metadata())))));
    } else if (op == "update") {
      found.push_back(
          description(*TRY(secrets.update(project, word, std::move(value), metadata_of(body)))));
    } else if (op == "find") {
      found.push_back(description(*TRY(secrets.load(project, word))));
    } else if (op == "remove") {
      TRY_VOID(secrets.remove(project, word));
    } else {
      return make_error(ErrorCode::kInvalid, "read request", "no such op");
    }
  } catch (const Json::exception&) {
    return make_error(ErrorCode::kInvalid, "read request", "the request has another shape");
  }
  return Json{{"secrets", std::move(found)}};
}

Task<> answer(ProjectSecrets& secrets, http::Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(kBodyBytesMax);
  const Result<Json> done =
      body ? work_on(secrets, *std::move(body)) : Result<Json>(std::move(body).error());
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

Task<> nothing() {
  co_return;
}

}  // namespace

std::vector<http::Route> secret_routes(ProjectSecrets& secrets, Refusal refuse) {
  return {{"POST", "/project-secrets",
           [&secrets, refuse](http::Exchange& exchange, const http::PathValues&) {
             return refuse(exchange) ? nothing() : answer(secrets, exchange);
           }}};
}

}  // namespace pons::vault
