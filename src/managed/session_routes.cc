#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "outcome_shape.h"
#include "pons/base/id.h"
#include "pons/base/log.h"
#include "routes.h"
#include "session_maker.h"
#include "session_shape.h"
#include "session_update.h"
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
  filter.memory_store = query.find("memory_store_id").value_or("");
  if (!filter.memory_store.empty() && !is_id_text(filter.memory_store))
    return make_error(ErrorCode::kInvalid, "read query", "memory_store_id: is no id");
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

Task<Reply<Json>> update(Context& context, Call& call) {
  CO_TRY(const auto body, co_await call.body());
  CO_TRY(auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto after,
         co_await update_session(context.objects, context.sessions, std::move(order), body));
  co_return co_await show(context, after);
}

// An agent of it that is still at work has nobody any more whom it works for.
Task<Result<void>> put_away_child(session::Sessions& sessions, const session::Summary& child) {
  if (child.archived_ms) co_return {};
  const auto archived = co_await sessions.archive(child.id);
  if (archived || archived.error().code != ErrorCode::kConflict) co_return archived;
  CO_TRY_VOID(co_await sessions.add(child.id, session::Interrupted{}));
  co_return co_await sessions.archive(child.id);
}

// The session first: nobody says anything to it any more.
Task<Reply<void>> put_away(Context& context, const SessionOrder& order,
                           const std::vector<session::Summary>& children,
                           session::Farewell farewell) {
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  if (!summary.archived_ms) {
    const auto archived = co_await context.sessions.archive(order.session, farewell);
    if (!archived && archived.error().code == ErrorCode::kConflict)
      co_return conflict("the session is at work; interrupt it first");
    if (!archived) co_return archived.error();
  }
  for (const session::Summary& child : children)
    if (const auto done = co_await put_away_child(context.sessions, child); !done)
      LOG_WARN("an agent of a session that is over is not put away", {"session", child.id},
               {"error", done.error()});
  co_return {};
}

Task<Reply<Json>> archive(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto children, co_await list_children(context.sessions, order));
  CO_TRY_VOID(co_await put_away(context, order, children, session::Farewell::kSaid));
  co_return co_await show(context, order);
}

// Whoever follows it hears that it is deleted, and not that it is archived before.
Task<Reply<Json>> remove(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto children, co_await list_children(context.sessions, order));
  CO_TRY_VOID(co_await put_away(context, order, children, session::Farewell::kUnsaid));
  CO_TRY_VOID(co_await context.objects.orders.remove(order.project, order.session));
  for (const session::Summary& child : children) context.sessions.forget(child.id);
  context.sessions.forget(order.session);
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
