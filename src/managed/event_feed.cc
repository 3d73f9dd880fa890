#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "event_feed.h"
#include "pons/managed/query.h"

namespace pons::managed {

namespace {

constexpr Duration kKeepAliveTime = std::chrono::seconds(15);
constexpr PageLimits kEventPages{.usual = 100, .max = 1'000};
constexpr std::size_t kPageBytes = 8 << 20;

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

std::vector<PublicEvent> translate(Translator translator,
                                   const std::vector<session::StoredEvent>& log,
                                   const EventFilter& filter) {
  std::vector<PublicEvent> all;
  for (const session::StoredEvent& stored : log)
    for (PublicEvent& event : translator.take(stored))
      if (filter.takes(event)) all.push_back(std::move(event));
  if (filter.newest_first) std::ranges::reverse(all);
  return all;
}

}  // namespace

Task<Reply<Json>> list_events(session::Sessions& sessions, Call& call, EventView view) {
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  CO_TRY(const auto filter, read_event_filter(query));
  const char* name = filter.newest_first ? "events desc" : "events asc";
  CO_TRY(const auto wish, read_page(query, name, kEventPages));
  CO_TRY(const auto log, co_await sessions.read_all(view.session));
  const auto events = translate(view.translator(), log, filter);
  auto next = events.begin();
  if (!wish.after.empty()) {
    next = std::ranges::find(events, wish.after[0], &PublicEvent::id);
    if (next == events.end())
      co_return bad_request("page: is not one of this list's next_page values");
    ++next;
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

// ---- the stream

namespace {

struct Following {
  Translator translator;                 // which has read the log as far as the client has
  std::vector<PublicEvent> missed = {};  // of the event that it has read a part of
  bool with_deltas = false;
};

// Reads the log up to its end or, when the client has seen a part of it, up to there. Piece by
// piece: there may be a thousand who begin at the same time, and the log may be long.
Task<Reply<void>> read_what_was_seen(session::Sessions& sessions, const std::string& session,
                                     std::optional<std::string_view> last, Following& following) {
  constexpr std::int64_t kReadAtOnce = 100;
  Translator& translator = following.translator;
  for (;;) {
    CO_TRY(const auto page,
           co_await sessions.log().read(session, translator.state().head, kReadAtOnce));
    if (page.empty()) break;
    for (const session::StoredEvent& stored : page) {
      std::vector<PublicEvent> events = translator.take(stored);
      const auto seen = last ? std::ranges::find(events, *last, &PublicEvent::id) : events.end();
      if (seen == events.end()) continue;
      // Events of one id come once, but not in the order of their ids: all behind it is news.
      following.missed.assign(std::next(seen), events.end());
      co_return {};
    }
  }
  if (last) co_return bad_request("Last-Event-ID is no event of this session");
  co_return {};
}

Task<Reply<Following>> begin_following(session::Sessions& sessions, Call& call,
                                       const EventView& view) {
  Following following{.translator = view.translator()};
  CO_TRY(const auto query, Query::parse(call.exchange.request().query()));
  for (const std::string& type : query.all("event_deltas")) {
    if (type != "agent.message" && type != "agent.thinking")
      co_return bad_request("event_deltas: must be agent.message or agent.thinking");
    following.with_deltas |= type == "agent.message";
  }
  auto last = call.exchange.request().find("last-event-id");
  if (last && last->empty()) last.reset();
  CO_TRY_VOID(co_await read_what_was_seen(sessions, view.session, last, following));
  co_return following;
}

Task<Result<void>> send_all(http::Exchange& exchange, std::vector<PublicEvent> events) {
  for (const PublicEvent& event : events)  // previews have no id
    CO_TRY_VOID(
        co_await exchange.send_event({.id = event.id, .event = event.type, .data = event.text}));
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
    return send_all(exchange, translator.take_delta(news.deltas_of, news.deltas));
  };
  if (is_due && is_asked()) CO_TRY_VOID(co_await send_deltas());
  for (const session::StoredEvent& stored : news.events) {
    CO_TRY_VOID(co_await send_all(exchange, translator.take(stored)));
    if (is_due && is_asked()) CO_TRY_VOID(co_await send_deltas());
  }
  if (is_due) CO_TRY_VOID(co_await send_deltas());
  co_return {};
}

}  // namespace

Task<> stream_events(session::Sessions& sessions, Call& call, EventView view) {
  http::Exchange& exchange = call.exchange;
  auto following = co_await begin_following(sessions, call, view);
  if (!following) {
    exchange.respond(answer_of(following.error(), call.caller.request_id));
    co_return;
  }
  // At once: clients wait for the head, and only for the head, with a deadline.
  if (!co_await exchange.start_events()) co_return;
  if (!co_await send_all(exchange, std::exchange(following->missed, {}))) co_return;
  Translator& translator = following->translator;
  const auto follower = sessions.follow(
      view.session, {.after = translator.state().head, .with_deltas = following->with_deltas});
  for (;;) {
    const auto news = co_await follower->next(exchange.loop().now() + kKeepAliveTime);
    if (!news) {
      exchange.abort();  // the client comes again with the id it has
      co_return;
    }
    if (!co_await send_news(exchange, translator, *news, following->with_deltas)) co_return;
  }
}

}  // namespace pons::managed
