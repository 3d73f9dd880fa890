#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent_shape.h"
#include "environment_shape.h"
#include "outcome_shape.h"
#include "pons/managed/fields.h"
#include "routes.h"
#include "session_maker.h"
#include "session_shape.h"
#include "threads.h"

namespace pons::managed {

namespace {

struct Context {
  Objects& objects;
  session::Sessions& sessions;
};

Task<Reply<Json>> show(Context& context, const SessionOrder& order) {
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  co_return co_await present_session(context.objects, order, summary);
}

Task<Reply<Json>> create(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  co_return co_await make_session(context.objects, context.sessions,
                                  {.id = {}, .project = call.caller.project, .deployment = {}},
                                  body);
}

Task<Reply<Json>> get(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  co_return co_await show(context, order);
}

Result<OrderFilter> read_order_filter(const Query& query) {
  OrderFilter filter;
  filter.with_archived = TRY(query.flag("include_archived"));
  filter.agent = query.find("agent_id").value_or("");
  filter.agent_version = TRY(query.number("agent_version", 1'000'000'000));
  filter.deployment = query.find("deployment_id").value_or("");
  const std::string order = query.find("order").value_or("desc");
  if (order != "asc" && order != "desc")
    return make_error(ErrorCode::kInvalid, "read query", "order: must be asc or desc");
  filter.oldest_first = order == "asc";
  for (const std::string& word : query.all("statuses")) TRY_VOID(read_status(word, filter));
  const auto later = [](std::optional<std::int64_t> time) {
    return time ? std::optional(*time + 1) : std::nullopt;
  };
  filter.after_ms = TRY(query.time("created_at[gte]"));
  if (const auto after = later(TRY(query.time("created_at[gt]")))) filter.after_ms = after;
  filter.before_ms = TRY(query.time("created_at[lt]"));
  if (const auto before = later(TRY(query.time("created_at[lte]")))) filter.before_ms = before;
  return filter;
}

Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto filter, read_order_filter(query));
  CO_TRY(const auto wish,
         read_page(query, SessionOrders::list_name(filter), {.usual = 20, .max = 100}));
  CO_TRY(const auto page, co_await context.objects.orders.list(call.caller.project, filter, wish));
  Json shown = Json::array();
  for (const SessionOrder& order : page.orders) {
    CO_TRY(auto session, co_await show(context, order));
    shown.push_back(std::move(session));
  }
  co_return Json{{"data", std::move(shown)},
                 {"next_page", page.next_page ? Json(*page.next_page) : Json(nullptr)},
                 {"prev_page", nullptr}};
}

// The agent that the session goes on with; null: it stays.
Task<Reply<Json>> changed_agent(const Json& said, const JsonPlace& place) {
  if (!has_value(place, "agent")) co_return Json(nullptr);
  const JsonPlace wish = place.at("agent");
  CO_TRY_VOID(wish.expect_object({"tools", "mcp_servers"}));
  CO_TRY(auto agent, read_overrides(said.at("agent"), wish));
  co_return agent;
}

// A budget is set when a session is made; later it can only grow, or go.
Reply<std::int64_t> changed_budget(std::int64_t before, const JsonPlace& place,
                                   const session::Usage& used) {
  if (!place.has("budget")) return before;
  if (place.at("budget").value.is_null()) return 0;
  if (before == 0) {
    Refusal refusal = bad_request("a session that was made without a budget cannot get one");
    refusal.code = "budget_create_only";
    return refusal;
  }
  const std::int64_t after = TRY(read_budget(place.at("budget")));
  if (after <= used.cost_nano) {
    Refusal refusal = bad_request("the budget is not above what the session has cost");
    refusal.code = "budget_not_raised";
    return refusal;
  }
  return after;
}

Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"title", "metadata", "agent", "budget", "vault_ids"}));
  if (place.has("vault_ids")) co_return bad_request("vault_ids cannot be changed");
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  if (summary.archived_ms) co_return is_archived("session");
  CO_TRY(auto said, parse_json(order.text));
  if (place.has("title")) {
    CO_TRY(const auto title, optional_text(place, "title", {.max = 256}));
    said["title"] = or_null(title);
  }
  CO_TRY(said["metadata"], patch_metadata(said["metadata"], place, "metadata"));
  CO_TRY(auto agent, co_await changed_agent(said, place));
  const auto budget_before = said["budget_nano"].get<std::int64_t>();
  CO_TRY(const auto budget, changed_budget(budget_before, place, summary.usage));
  if (!agent.is_null() || budget != budget_before) {
    if (!agent.is_null()) said["agent"] = std::move(agent);
    said["budget_nano"] = budget;
    CO_TRY(const auto environment,
           co_await context.objects.environments.find(order.project, order.environment));
    CO_TRY(auto config, parse_json(environment.text));
    add_vaults(order.project, said["vault_ids"], config);
    session::AgentSpec spec = spec_of(said["agent"], config);
    spec.budget_nano = budget;
    CO_TRY_VOID(
        co_await context.sessions.add(order.session, session::AgentChanged{std::move(spec)}));
  }
  CO_TRY(const auto after, co_await context.objects.orders.replace(order, dump_json(said)));
  co_return co_await show(context, after);
}

Task<Reply<void>> put_away(Context& context, const SessionOrder& order) {
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  if (summary.archived_ms) co_return {};
  const auto archived = co_await context.sessions.archive(order.session);
  if (!archived && archived.error().code == ErrorCode::kConflict)
    co_return conflict("the session is at work; interrupt it first");
  if (!archived) co_return archived.error();
  // Its agents have stopped, or are about to.
  CO_TRY(const auto children, co_await list_children(context.sessions, order));
  for (const session::Summary& child : children)
    if (!child.archived_ms) (void)co_await context.sessions.archive(child.id);
  co_return {};
}

Task<Reply<Json>> archive(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY_VOID(co_await put_away(context, order));
  co_return co_await show(context, order);
}

Task<Reply<Json>> remove(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY_VOID(co_await put_away(context, order));
  CO_TRY_VOID(co_await context.objects.orders.remove(order.project, order.session));
  co_return Json{{"id", order.session}, {"type", "session_deleted"}};
}

}  // namespace

std::vector<http::Route> session_routes(Objects& objects, session::Sessions& sessions) {
  const auto with = [&](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{objects, sessions}, work](Call& call) mutable {
      return work(context, call);
    });
  };
  return {{"POST", "/v1/sessions", with(create)},
          {"GET", "/v1/sessions", with(list)},
          {"GET", "/v1/sessions/{id}", with(get)},
          {"POST", "/v1/sessions/{id}", with(update)},
          {"DELETE", "/v1/sessions/{id}", with(remove)},
          {"POST", "/v1/sessions/{id}/archive", with(archive)}};
}

}  // namespace pons::managed
