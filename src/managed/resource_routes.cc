#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/managed/query.h"

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

constexpr PageLimits kPageLimits{.usual = kResourcesMax, .max = kResourcesMax};

// In the order in which they came; a page begins behind so many.
Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  const std::string name = "resources " + call.ids[0];
  CO_TRY(const auto wish, read_page(query, name, kPageLimits));
  std::int64_t begin = 0;
  if (!wish.after.empty()) {
    CO_TRY(begin, number_in(wish, 0));
  }
  CO_TRY(const auto found, co_await find_session(context, call));
  const Json& all = found.said.at("resources");
  const auto count = static_cast<std::int64_t>(all.size());
  begin = std::clamp<std::int64_t>(begin, 0, count);
  const std::int64_t end = std::min(count, begin + wish.limit);
  Json data = Json::array();
  for (std::int64_t i = begin; i < end; ++i) data.push_back(all[static_cast<std::size_t>(i)]);
  co_return Json{
      {"data", std::move(data)},
      {"next_page", end < count ? Json(write_cursor(name, {std::to_string(end)})) : Json(nullptr)}};
}

Task<Reply<Json>> get(Context& context, Call& call) {
  CO_TRY(const auto found, co_await find_session(context, call));
  const Json* resource = find_resource(found.said.at("resources"), call.ids[1]);
  if (resource == nullptr) co_return no_resource();
  co_return *resource;
}

Task<Reply<bool>> is_self_hosted(Context& context, const SessionOrder& order) {
  CO_TRY(const auto environment,
         co_await context.objects.environments.find(order.project, order.environment));
  CO_TRY(const auto config, parse_json(environment.text));
  co_return config.at("config").at("type") == "self_hosted";
}

// It is in the session's machine before the next tool is used there.
Task<Reply<Json>> add(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(const auto wish, read_added_resource({.value = body, .pointer = {}}));
  CO_TRY(auto found, co_await find_living(context, call));
  Json& resources = found.said["resources"];
  if (resources.size() >= kResourcesMax)
    co_return bad_request("a session has at most 500 resources");
  if (find_in_the_way(resources, wish.at("mount_path").get<std::string>()) != nullptr)
    co_return conflict("another resource of the session has this mount_path, or one in its way");
  CO_TRY(const bool self_hosted, co_await is_self_hosted(context, found.order));
  CO_TRY(const auto settled,
         co_await settle_resources(context.objects,
                                   {.project = found.order.project, .self_hosted = self_hosted},
                                   Json::array({wish})));
  resources.push_back(settled[0]);
  CO_TRY_VOID(co_await context.objects.orders.replace(found.order, dump_json(found.said)));
  co_return settled[0];
}

// What could be changed is the token of a repository, and those are kept in vaults. The body is not
// read: it holds one.
Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto found, co_await find_session(context, call));
  const Json* resource = find_resource(found.said.at("resources"), call.ids[1]);
  if (resource == nullptr) co_return no_resource();
  if ((*resource)["type"] == "file")
    co_return bad_request(
        "only the authorization_token of a github_repository can be changed; this is a file");
  co_return bad_request(
      "tokens are kept in vaults: update the environment_variable GITHUB_TOKEN of the session's");
}

Task<Reply<Json>> remove(Context& context, Call& call) {
  CO_TRY(auto found, co_await find_living(context, call));
  Json& resources = found.said["resources"];
  if (find_resource(resources, call.ids[1]) == nullptr) co_return no_resource();
  Json left = Json::array();
  for (Json& resource : resources)
    if (!resource.contains("id") || resource["id"] != call.ids[1])
      left.push_back(std::move(resource));
  resources = std::move(left);
  found.said["had_other_files"] = true;
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
