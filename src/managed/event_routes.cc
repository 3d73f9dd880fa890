#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "event_input.h"
#include "routes.h"
#include "translator.h"

namespace pons::managed {

namespace {

constexpr Duration kKeepAliveTime = std::chrono::seconds(15);
constexpr PageLimits kEventPages{.usual = 100, .max = 1'000};
constexpr std::size_t kPageBytes = 8 << 20;

struct Context {
  Objects& objects;
  session::Sessions& sessions;
};

struct EventFilter {
  std::vector<std::string> types;
  std::optional<std::int64_t> from_ms;
  std::optional<std::int64_t> before_ms;
  bool newest_first = false;

  bool takes(const PublicEvent& event) const {
    if (!types.empty() && std::ranges::find(types, event.type) == types.end()) return false;
    return (!from_ms || event.at_ms >= *from_ms) && (!before_ms || event.at_ms < *before_ms);
  }
};

Result<EventFilter> read_event_filter(const Query& query) {
  EventFilter filter{.types = query.all("types"),
                     .from_ms = TRY(query.time("created_at[gte]")),
                     .before_ms = TRY(query.time("created_at[lt]"))};
  if (const auto after = TRY(query.time("created_at[gt]"))) filter.from_ms = *after + 1;
  if (const auto until = TRY(query.time("created_at[lte]"))) filter.before_ms = *until + 1;
  const std::string order = query.find("order").value_or("asc");
  if (order != "asc" && order != "desc")
    return make_error(ErrorCode::kInvalid, "read query", "order: must be asc or desc");
  filter.newest_first = order == "desc";
  return filter;
}

std::vector<PublicEvent> translate(const std::string& session,
                                   const std::vector<session::StoredEvent>& log,
                                   const EventFilter& filter) {
  Translator translator(session);
  std::vector<PublicEvent> all;
  for (const session::StoredEvent& stored : log)
    for (PublicEvent& event : translator.take(stored))
      if (filter.takes(event)) all.push_back(std::move(event));
  if (filter.newest_first) std::ranges::reverse(all);
  return all;
}

Task<Reply<Json>> list(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto filter, read_event_filter(query));
  const char* name = filter.newest_first ? "events desc" : "events asc";
  CO_TRY(const auto wish, read_page(query, name, kEventPages));
  CO_TRY(const auto log, co_await context.sessions.read_all(order.session));
  const auto events = translate(order.session, log, filter);
  auto next = events.begin();
  if (!wish.after.empty()) {
    const auto last = parse_event_id(order.session, wish.after[0]);
    if (!last) co_return bad_request("page: is not one of this list's next_page values");
    next = std::ranges::find(events, *last, &PublicEvent::id);
    if (next != events.end()) ++next;
  }
  Json shown = Json::array();
  Json cursor = nullptr;
  std::size_t bytes = 0;
  for (; next != events.end(); ++next) {
    const bool is_full = static_cast<std::int64_t>(shown.size()) == wish.limit ||
                         (bytes + next->text.size() > kPageBytes && !shown.empty());
    if (is_full) {
      cursor = write_cursor(name, {shown.back()["id"].get<std::string>()});
      break;
    }
    bytes += next->text.size();
    CO_TRY(auto json, parse_json(next->text, {.depth = 128, .bytes = std::size_t{64} << 20}));
    shown.push_back(std::move(json));
  }
  co_return Json{{"data", std::move(shown)}, {"next_page", std::move(cursor)}};
}

// A client that did not hear our answer says it again: what is in the log already is the answer.
std::optional<session::Seq> find_said(const std::vector<session::StoredEvent>& log,
                                      const session::Event& input) {
  const bool is_answer = std::holds_alternative<session::UserDecision>(input) ||
                         std::holds_alternative<session::UserToolResult>(input);
  if (!is_answer) return std::nullopt;
  const auto found = std::ranges::find(log, input, &session::StoredEvent::event);
  return found == log.end() ? std::nullopt : std::optional(found->seq);
}

Task<Reply<session::Seq>> add(Context& context, const std::string& session, session::Event input) {
  const auto added = co_await context.sessions.add(session, input);
  if (added) co_return *added;
  if (added.error().code == ErrorCode::kInvalid) {
    CO_TRY(const auto log, co_await context.sessions.read_all(session));
    if (const auto seq = find_said(log, input)) co_return *seq;
  }
  co_return added.error();
}

Task<Reply<Json>> send(Context& context, Call& call) {
  CO_TRY(const auto order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto body, co_await call.body());
  const JsonPlace place{.value = body, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"events"}));
  CO_TRY(auto inputs, read_inputs(place, "events", order.session, Inputs::kAny));
  if (inputs.empty()) co_return bad_request("\"events\" is missing or empty");
  CO_TRY(const auto summary, co_await context.sessions.log().find(order.session));
  if (summary.archived_ms) co_return conflict("the session is archived");
  Json echoed = Json::array();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CO_TRY(const auto seq, co_await add(context, order.session, std::move(inputs[i])));
    Json event = body["events"][i];
    event["id"] = write_event_id(order.session, {.seq = seq});
    event["processed_at"] = write_time(std::chrono::duration_cast<std::chrono::milliseconds>(
                                           context.objects.clock.wall().time_since_epoch())
                                           .count());
    echoed.push_back(std::move(event));
  }
  co_return Json{{"data", std::move(echoed)}};
}

// ---- the stream

struct Following {
  SessionOrder order;
  std::vector<session::StoredEvent> log;  // up to now
  std::optional<EventId> after;           // what the client has seen; nothing: it wants news only
  bool with_deltas = false;
};

Task<Reply<Following>> begin_following(Context& context, Call& call) {
  Following following;
  CO_TRY(following.order, co_await context.objects.orders.find(call.caller.project, call.ids[0]));
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  for (const std::string& type : query.all("event_deltas")) {
    if (type != "agent.message" && type != "agent.thinking")
      co_return bad_request("event_deltas: must be agent.message or agent.thinking");
    following.with_deltas |= type == "agent.message";
  }
  if (const auto last = call.exchange.request().find("last-event-id"); last && !last->empty()) {
    following.after = parse_event_id(following.order.session, *last);
    if (!following.after) co_return bad_request("Last-Event-ID is no event of this session");
  }
  CO_TRY(following.log, co_await context.sessions.read_all(following.order.session));
  co_return following;
}

Task<Result<void>> send_all(http::Exchange& exchange, const Translator& translator,
                            std::vector<PublicEvent> events) {
  for (const PublicEvent& event : events) {
    const bool is_preview = event.type == "event_start" || event.type == "event_delta";
    CO_TRY_VOID(
        co_await exchange.send_event({.id = is_preview ? std::string() : translator.id_of(event.id),
                                      .event = event.type,
                                      .data = event.text}));
  }
  co_return {};
}

Task<Result<void>> catch_up(http::Exchange& exchange, Translator& translator,
                            const Following& following) {
  // Events of one id come once, but not in the order of their ids: the one that was seen last is
  // looked for, and everything behind it is news.
  bool is_news = false;
  for (const session::StoredEvent& stored : following.log) {
    std::vector<PublicEvent> news;
    for (PublicEvent& event : translator.take(stored)) {
      if (is_news)
        news.push_back(std::move(event));
      else if (following.after && event.id == *following.after)
        is_news = true;
    }
    CO_TRY_VOID(co_await send_all(exchange, translator, std::move(news)));
  }
  co_return {};
}

Task<Result<void>> send_news(http::Exchange& exchange, Translator& translator,
                             const session::News& news, bool with_deltas) {
  if (news.events.empty() && news.deltas.empty())
    co_return co_await exchange.write(http::kEventStreamKeepAlive);
  // They belong behind the question, which may be among the events.
  bool is_due = !news.deltas.empty() && with_deltas;
  const auto is_asked = [&] {
    return translator.state().asked && translator.state().asked->seq == news.deltas_of;
  };
  const auto send_deltas = [&] {
    is_due = false;
    return send_all(exchange, translator, translator.take_delta(news.deltas_of, news.deltas));
  };
  if (is_due && is_asked()) CO_TRY_VOID(co_await send_deltas());
  for (const session::StoredEvent& stored : news.events) {
    CO_TRY_VOID(co_await send_all(exchange, translator, translator.take(stored)));
    if (is_due && is_asked()) CO_TRY_VOID(co_await send_deltas());
  }
  if (is_due) CO_TRY_VOID(co_await send_deltas());
  co_return {};
}

Task<> stream(Context context, http::Exchange& exchange, std::string id) {
  auto caller = caller_of(exchange);
  if (!caller) {
    exchange.respond(answer_of(caller.error(), ""));
    co_return;
  }
  Call call{.exchange = exchange, .caller = std::move(*caller), .ids = {std::move(id)}};
  auto following = co_await begin_following(context, call);
  if (!following) {
    exchange.respond(answer_of(following.error(), call.caller.request_id));
    co_return;
  }
  // At once: clients wait for the head, and only for the head, with a deadline.
  if (!co_await exchange.start_events()) co_return;
  const std::string& session = following->order.session;
  Translator translator(session);
  if (!co_await catch_up(exchange, translator, *following)) co_return;
  const auto follower = context.sessions.follow(
      session, {.after = translator.state().head, .with_deltas = following->with_deltas});
  following->log.clear();
  for (;;) {
    const auto news = co_await follower->next(exchange.loop().now() + kKeepAliveTime);
    if (!news) {
      exchange.abort();  // the client comes again with the id it has
      co_return;
    }
    if (!co_await send_news(exchange, translator, *news, following->with_deltas)) co_return;
  }
}

}  // namespace

std::vector<http::Route> event_routes(Objects& objects, session::Sessions& sessions) {
  const auto with = [&](Task<Reply<Json>> (*work)(Context&, Call&)) {
    return answering([context = Context{objects, sessions}, work](Call& call) mutable {
      return work(context, call);
    });
  };
  return {{"GET", "/v1/sessions/{id}/events", with(list)},
          {"POST", "/v1/sessions/{id}/events", with(send)},
          {"GET", "/v1/sessions/{id}/events/stream",
           [context = Context{objects, sessions}](http::Exchange& exchange,
                                                  const http::PathValues& values) {
             return stream(context, exchange, std::string(values.front()));
           }}};
}

}  // namespace pons::managed
