#include <nlohmann/json.hpp>

#include "resource_shape.h"

namespace pons::managed {

namespace {

struct Context {
  Objects& objects;
  session::Sessions& sessions;
};

// A session of the caller's, and what it ordered.
struct Found {
  SessionOrder order;
  Json said;
};

Task<Reply<Found>> find_session(Context& context, const Call& call) {
  CO_TRY(auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(auto said, parse_json(order.text));
  co_return Found{.order = std::move(order), .said = std::move(said)};
}

Task<Reply<Found>> find_living(Context& context, const Call& call) {
  CO_TRY(auto found, co_await find_session(context, call));
  CO_TRY(const auto summary, co_await context.sessions.log().find(found.order.session));
  if (summary.archived_ms) co_return is_archived("session");
  co_return found;
}

Refusal no_resource() {
  Refusal refusal = no_such("resource");
  refusal.code = "session_resource_not_found";
  return refusal;
}

Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(auto found, co_await find_session(context, call));
  co_return Json{{"data", std::move(found.said["resources"])}, {"next_page", nullptr}};
}

Task<Reply<Json>> get(Context& context, Call& call) {
  CO_TRY(auto found, co_await find_session(context, call));
  const Json* resource = find_resource(found.said["resources"], call.ids[1]);
  if (resource == nullptr) co_return no_resource();
  co_return *resource;
}

// It is in the session's machine before the next tool is used there.
Task<Reply<Json>> add(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(type_of(place, {"file"}));
  CO_TRY(const auto resource, read_resource(place));
  CO_TRY(auto found, co_await find_living(context, call));
  Json& resources = found.said["resources"];
  if (resources.size() >= kResourcesMax) co_return bad_request("a session has 500 resources");
  const auto now = context.objects.clock.wall().time_since_epoch();
  CO_TRY(const auto environment,
         co_await context.objects.environments.find(found.order.project, found.order.environment));
  CO_TRY(const auto config, parse_json(environment.text));
  const ResourceWish wish{
      .project = found.order.project,
      .self_hosted = config.at("config").at("type") == "self_hosted",
      .now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
  CO_TRY(auto settled, co_await settle_resources(context.objects, wish, Json::array({resource})));
  for (const Json& other : resources)
    if (other["mount_path"] == settled[0]["mount_path"])
      co_return conflict("another resource of the session has this mount_path");
  resources.push_back(settled[0]);
  CO_TRY_VOID(co_await context.objects.orders.replace(found.order, dump_json(found.said)));
  co_return settled[0];
}

// Tokens of repositories can be changed; nothing else can.
Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY_VOID(co_await call.body());
  CO_TRY(auto found, co_await find_living(context, call));
  if (find_resource(found.said["resources"], call.ids[1]) == nullptr) co_return no_resource();
  co_return bad_request("only the token of a repository can be changed; this is a file");
}

Task<Reply<Json>> remove(Context& context, Call& call) {
  CO_TRY(auto found, co_await find_living(context, call));
  Json& resources = found.said["resources"];
  if (find_resource(resources, call.ids[1]) == nullptr) co_return no_resource();
  for (std::size_t i = resources.size(); i-- > 0;)
    if (resources[i].contains("id") && resources[i]["id"] == call.ids[1]) resources.erase(i);
  CO_TRY_VOID(co_await context.objects.orders.replace(found.order, dump_json(found.said)));
  co_return Json{{"id", call.ids[1]}, {"type", "session_resource_deleted"}};
}

}  // namespace

std::vector<http::Route> resource_routes(Objects& objects, session::Sessions& sessions) {
  const auto with = [&](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{objects, sessions}, work](Call& call) mutable {
      return work(context, call);
    });
  };
  return {{"GET", "/v1/sessions/{id}/resources", with(list)},
          {"POST", "/v1/sessions/{id}/resources", with(add)},
          {"GET", "/v1/sessions/{id}/resources/{resource}", with(get)},
          {"POST", "/v1/sessions/{id}/resources/{resource}", with(update)},
          {"DELETE", "/v1/sessions/{id}/resources/{resource}", with(remove)}};
}

}  // namespace pons::managed
