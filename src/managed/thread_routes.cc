#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "event_feed.h"
#include "multiagent_shape.h"
#include "routes.h"
#include "session_shape.h"
#include "thread_id.h"
#include "threads.h"

namespace pons::managed {

namespace {

// Of one session; more are not shown.
constexpr std::int64_t kThreadsShownMax = 1'000;

bool has_threads(const Json& said) {
  const Json& agent = said.at("agent");
  return agent.contains("multiagent") && !agent["multiagent"].is_null();
}

}  // namespace

Task<Reply<std::vector<session::Summary>>> list_children(session::Sessions& sessions,
                                                         const SessionOrder& order) {
  CO_TRY(const auto said, parse_json(order.text));
  if (!has_threads(said)) co_return std::vector<session::Summary>();
  CO_TRY(auto children, co_await sessions.log().list({.project = order.project,
                                                      .before = {},
                                                      .limit = kThreadsShownMax,
                                                      .with_archived = true,
                                                      .parent = order.session}));
  // As they were wanted: those of one answer begin in the same millisecond.
  std::ranges::sort(children, {}, [](const session::Summary& child) {
    return std::tie(child.parent_call, child.created_ms, child.id);
  });
  co_return children;
}

Task<Reply<Recipients>> recipients_of(session::Sessions& sessions, const SessionOrder& order) {
  Recipients recipients{.session = order.session};
  CO_TRY(const auto children, co_await list_children(sessions, order));
  for (const session::Summary& child : children)
    if (!child.archived_ms) recipients.threads.push_back(child.id);
  co_return recipients;
}

namespace {

struct Context {
  Objects& objects;
  session::Sessions& sessions;
};

// One thread of a session that the caller may see.
struct Thread {
  SessionOrder order;
  session::Summary summary;  // of its own log
  bool is_primary() const { return summary.id == order.session; }

  EventView view() const {
    if (is_primary()) return {.session = order.session};
    return {.session = summary.id,
            .thread = Translator::Thread{.primary = order.session, .agent = summary.agent}};
  }
};

Task<Reply<Thread>> find_thread(Context& context, Call& call) {
  Thread thread;
  CO_TRY(thread.order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  const auto session = parse_thread_id(thread.order.session, call.ids[1]);
  if (!session) co_return no_such("thread");
  auto found = co_await context.sessions.log().find(*session);
  if (!found && found.error().code == ErrorCode::kNotFound) co_return no_such("thread");
  if (!found) co_return found.error();
  thread.summary = std::move(*found);
  if (!thread.is_primary() && thread.summary.parent != thread.order.session)
    co_return no_such("thread");
  co_return thread;
}

Result<Json> show(const Thread& thread) {
  const Json said = TRY(parse_json(thread.order.text));
  const session::Summary& log = thread.summary;
  Json agent = thread.is_primary() ? said.at("agent") : find_member(said.at("agent"), log.agent);
  agent.erase("multiagent");
  const bool has_begun = log.head > 1;
  Json parent = nullptr;
  if (!thread.is_primary()) parent = write_thread_id(thread.order.session);
  Json stats = nullptr;
  if (has_begun) stats = {{"duration_seconds", (log.updated_ms - log.created_ms) / 1000}};
  return Json{
      {"id", write_thread_id(log.id)},
      {"type", "session_thread"},
      {"session_id", thread.order.session},
      {"parent_thread_id", std::move(parent)},
      {"agent", std::move(agent)},
      {"status", status_of(log)},
      {"stats", std::move(stats)},
      {"usage", has_begun ? show_usage(log.usage) : Json(nullptr)},
      {"workflow_run_id", nullptr},
      {"created_at", write_time(log.created_ms)},
      {"updated_at", write_time(log.updated_ms)},
      {"archived_at", log.archived_ms ? Json(write_time(*log.archived_ms)) : Json(nullptr)}};
}

Task<Reply<Json>> get(Context& context, Call& call) {
  CO_TRY(const auto thread, co_await find_thread(context, call));
  CO_TRY(auto shown, show(thread));
  co_return shown;
}

// Which statuses are wanted; empty: all.
Result<std::vector<std::string>> read_statuses(const Query& query) {
  std::vector<std::string> wanted = query.all("statuses");
  OrderFilter unused;
  for (const std::string& word : wanted) TRY_VOID(read_status(word, unused));
  return wanted;
}

Task<Reply<Json>> list(Context& context, Call& call) {
  Thread thread;
  CO_TRY(thread.order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto wanted, read_statuses(query));
  CO_TRY(const auto wish, read_page(query, "threads", {.usual = 100, .max = 1'000}));
  std::int64_t from = 0;
  if (!wish.after.empty()) {
    CO_TRY(from, number_in(wish, 0));
  }
  CO_TRY(thread.summary, co_await context.sessions.log().find(thread.order.session));
  CO_TRY(auto logs, co_await list_children(context.sessions, thread.order));
  logs.insert(logs.begin(), thread.summary);
  Json shown = Json::array();
  Json next = nullptr;
  for (std::size_t i = static_cast<std::size_t>(from); i < logs.size(); ++i) {
    if (static_cast<std::int64_t>(shown.size()) == wish.limit) {
      next = write_cursor("threads", {fmt::format("{}", i)});
      break;
    }
    thread.summary = std::move(logs[i]);
    if (!wanted.empty() && std::ranges::find(wanted, status_of(thread.summary)) == wanted.end())
      continue;
    CO_TRY(auto each, show(thread));
    shown.push_back(std::move(each));
  }
  co_return Json{{"data", std::move(shown)}, {"next_page", std::move(next)}};
}

Task<Reply<Json>> archive(Context& context, Call& call) {
  CO_TRY(auto thread, co_await find_thread(context, call));
  if (thread.is_primary())
    co_return bad_request("the first thread of a session is archived with the session");
  if (!thread.summary.archived_ms) {
    const auto archived = co_await context.sessions.archive(thread.summary.id);
    if (!archived && archived.error().code == ErrorCode::kConflict)
      co_return conflict("the thread is at work; interrupt it first");
    if (!archived) co_return archived.error();
    CO_TRY(thread.summary, co_await context.sessions.log().find(thread.summary.id));
  }
  // Also when it was put away before: whoever did so may not have come this far.
  const auto told = co_await context.sessions.add(
      thread.order.session, session::ThreadArchived{.call = thread.summary.parent_call});
  const bool is_over = !told && told.error().code == ErrorCode::kInvalid;
  if (!told && !is_over) co_return told.error();
  CO_TRY(auto shown, show(thread));
  co_return shown;
}

Task<Reply<Json>> list_its_events(Context& context, Call& call) {
  CO_TRY(const auto thread, co_await find_thread(context, call));
  co_return co_await list_events(context.sessions, call, thread.view());
}

Task<> stream(Context context, http::Exchange& exchange, std::vector<std::string> ids) {
  auto caller = caller_of(exchange);
  if (!caller) {
    exchange.respond(answer_of(caller.error(), ""));
    co_return;
  }
  Call call{.exchange = exchange, .caller = std::move(*caller), .ids = std::move(ids)};
  const auto thread = co_await find_thread(context, call);
  if (!thread) {
    exchange.respond(answer_of(thread.error(), call.caller.request_id));
    co_return;
  }
  co_await stream_events(context.sessions, call, thread->view());
}

}  // namespace

std::vector<http::Route> thread_routes(Objects& objects, session::Sessions& sessions) {
  const auto with = [&](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{objects, sessions}, work](Call& call) mutable {
      return work(context, call);
    });
  };
  return {{"GET", "/v1/sessions/{id}/threads", with(list)},
          {"GET", "/v1/sessions/{id}/threads/{thread}", with(get)},
          {"POST", "/v1/sessions/{id}/threads/{thread}/archive", with(archive)},
          {"GET", "/v1/sessions/{id}/threads/{thread}/events", with(list_its_events)},
          {"GET", "/v1/sessions/{id}/threads/{thread}/stream",
           [context = Context{objects, sessions}](http::Exchange& exchange,
                                                  const http::PathValues& values) {
             return stream(context, exchange, read_ids(values));
           }}};
}

}  // namespace pons::managed
