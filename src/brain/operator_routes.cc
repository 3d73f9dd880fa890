#include <nlohmann/json.hpp>

#include "caller_project.h"
#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/http/error_status.h"
#include "pons/store/backup_route.h"
#include "pons/supervisor/role_runtime.h"
#include "requests.h"
#include "routes.h"

namespace pons::brain {

namespace {

struct Answer {
  int status = 200;
  Json body;
};

constexpr Duration kHearingTime = std::chrono::milliseconds(500);

struct Context {
  Memory& memory;
  KeyFeed& feed;
  // Nothing for the operator, who may do everything; otherwise the project that the caller may
  // manage: the front lets in those whose key has the scope "admin".
  std::optional<std::string> project = std::nullopt;
};

Json to_json(const std::optional<std::int64_t>& limit) {
  return limit ? Json(*limit) : Json(nullptr);
}

Json to_json(const Project& project) {
  return {{"id", project.id},
          {"name", project.name},
          {"created_unix_ms", project.created_ms},
          {"limits",
           {{"sandboxes", to_json(project.limits.sandboxes)},
            {"sessions", to_json(project.limits.sessions)},
            {"requests_per_second", to_json(project.limits.requests_per_second)}}}};
}

Json to_json(const ApiKey& key) {
  Json json = {
      {"id", key.id},         {"project", key.project_id},         {"name", key.name},
      {"scopes", key.scopes}, {"created_unix_ms", key.created_ms}, {"revoked_unix_ms", nullptr}};
  if (key.revoked_ms) json["revoked_unix_ms"] = *key.revoked_ms;
  return json;
}

template <class T>
Json list_of(const char* name, const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return {{name, std::move(list)}};
}

Task<Result<Answer>> list_projects(Context context, http::Exchange&, std::string) {
  CO_TRY(const auto projects, co_await context.memory.projects.list());
  co_return Answer{.body = list_of("projects", projects)};
}

Task<Result<Answer>> create_project(Context context, http::Exchange& exchange, std::string) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(auto name, parse_new_project(body));
  CO_TRY(const auto project, co_await context.memory.projects.create(std::move(name)));
  co_return Answer{.status = 201, .body = to_json(project)};
}

void tell_others(const Memory& memory) {
  if (memory.bell != nullptr) memory.bell->ring(std::string(kKeysTopic));
}

Task<Result<Answer>> change_limits(Context context, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const auto changes, parse_limits(body));
  CO_TRY(const auto project,
         co_await context.memory.projects.change_limits(std::move(id), changes));
  context.feed.limit(project.id, project.limits.requests_per_second);
  tell_others(context.memory);
  co_await context.feed.wait_until_heard(exchange.loop().now() + kHearingTime);
  co_return Answer{.body = to_json(project)};
}

Task<Result<Answer>> show_project(Context context, http::Exchange& exchange, std::string) {
  std::string wanted;
  if (context.project) {
    wanted = *context.project;
  } else {
    CO_TRY(wanted, project_of(exchange));
  }
  CO_TRY(const auto project, co_await context.memory.projects.find(std::move(wanted)));
  co_return Answer{.body = to_json(project)};
}

Task<Result<Answer>> list_keys(Context context, http::Exchange&, std::string) {
  CO_TRY(const auto keys, co_await context.memory.keys.list(context.project));
  co_return Answer{.body = list_of("keys", keys)};
}

Task<Result<Answer>> create_key(Context context, http::Exchange& exchange, std::string) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(auto request, parse_new_key(body));
  if (context.project) request.project = *context.project;
  CO_TRY(const auto project, co_await context.memory.projects.find(std::move(request.project)));
  CO_TRY(const auto made, co_await context.memory.keys.create(project.id, std::move(request.name),
                                                              std::move(request.scopes)));
  context.feed.add(made.key);
  tell_others(context.memory);
  co_await context.feed.wait_until_heard(exchange.loop().now() + kHearingTime);
  Json json = to_json(made.key);
  json["key"] = made.text.reveal();
  co_return Answer{.status = 201, .body = std::move(json)};
}

Task<Result<Answer>> revoke_key(Context context, http::Exchange& exchange, std::string id) {
  // Refused from here on even if the store does not answer: whoever revokes a key must not wait for
  // a disk to be rid of it.
  if (!context.project || context.feed.has(id, *context.project)) context.feed.remove(id);
  CO_TRY_VOID(co_await context.memory.keys.revoke(id, context.project));
  tell_others(context.memory);
  co_await context.feed.wait_until_heard(exchange.loop().now() + kHearingTime);
  co_return Answer{.body = {{"revoked", id}}};
}

using Work = Task<Result<Answer>> (*)(Context, http::Exchange&, std::string);

// Who may ask: the operator alone, or those, too, who manage a project.
enum class For : std::uint8_t { kOperator, kManagers };

Task<> answer(For whom, Work work, Context context, http::Exchange& exchange, std::string id) {
  if (whom == For::kManagers && exchange.peer().role == "front") {
    auto project = project_of(exchange);
    if (!project) {
      exchange.respond(http::error_response(project.error()));
      co_return;
    }
    context.project = std::move(*project);
  } else if (supervisor::refuse_unless_operator(exchange)) {
    co_return;
  }
  auto done = co_await work(context, exchange, std::move(id));
  if (done)
    exchange.respond({.status = done->status, .body = dump_json(done->body) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

Task<> answer_backup_to_operator(Context context, http::Exchange& exchange) {
  if (supervisor::refuse_unless_operator(exchange)) co_return;
  if (context.memory.file == nullptr)
    exchange.respond(http::error_response(make_error(
        ErrorCode::kUnsupported, "back up",
        "everything is in PostgreSQL; copy it with PostgreSQL's own programs, such as pg_dump")));
  else
    co_await store::answer_backup(*context.memory.file, exchange);
}

}  // namespace

std::vector<http::Route> operator_routes(Memory& memory, KeyFeed& feed) {
  const Context context{memory, feed};
  const auto handler = [context](For whom, Work work) -> http::RouteHandler {
    return [=](http::Exchange& exchange, const http::PathValues& values) {
      return answer(whom, work, context, exchange,
                    values.empty() ? "" : std::string(values.front()));
    };
  };
  return {
      {"GET", "/projects", handler(For::kOperator, list_projects)},
      {"POST", "/projects", handler(For::kOperator, create_project)},
      {"POST", "/projects/{id}/limits", handler(For::kOperator, change_limits)},
      {"GET", "/project", handler(For::kManagers, show_project)},
      {"GET", "/api-keys", handler(For::kManagers, list_keys)},
      {"POST", "/api-keys", handler(For::kManagers, create_key)},
      {"DELETE", "/api-keys/{id}", handler(For::kManagers, revoke_key)},
      {"GET", "/backup",
       [context](http::Exchange& exchange, const http::PathValues&) {
         return answer_backup_to_operator(context, exchange);
       }},
  };
}

}  // namespace pons::brain
