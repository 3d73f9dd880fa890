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

// What the agent has read since it was said was processed then.
void note_processed(PublicEvent& event, std::int64_t at_ms) {
  auto json = parse_json(event.text, {.depth = 128, .bytes = std::size_t{64} << 20});
  if (!json) return;
  (*json)["processed_at"] = write_time(at_ms);
  event.text = dump_json(*json);
  event.is_queued = false;
}

std::vector<PublicEvent> translate(Translator translator,
                                   const std::vector<session::StoredEvent>& log,
                                   const EventFilter& filter) {
  std::vector<PublicEvent> all;
  std::vector<std::size_t> queued;
  for (const session::StoredEvent& stored : log) {
    for (PublicEvent& event : translator.take(stored)) {
      if (!filter.takes(event)) continue;
      if (event.is_queued) queued.push_back(all.size());
      all.push_back(std::move(event));
    }
    if (queued.empty() || !translator.state().unread.empty()) continue;
    for (const std::size_t place : queued) note_processed(all[place], stored.at_ms);
    queued.clear();
  }
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
  bool with_thinking = false;
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
    following.with_thinking |= type == "agent.thinking";
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

// What is shown of an answer before it is there belongs behind its question, which may be among the
// events that have not been sent yet.
bool is_due(const Translator& translator, session::Seq asked) {
  return asked != 0 && translator.state().asked && translator.state().asked->seq == asked;
}

std::vector<PublicEvent> take_previews(Following& following, session::News& news) {
  std::vector<PublicEvent> out;
  if (is_due(following.translator, news.thinks_of))
    out = following.translator.take_thinking(std::exchange(news.thinks_of, 0));
  if (news.deltas.empty() || !is_due(following.translator, news.deltas_of)) return out;
  std::ranges::move(following.translator.take_delta(news.deltas_of, std::exchange(news.deltas, {})),
                    std::back_inserter(out));
  return out;
}

Task<Result<void>> send_news(http::Exchange& exchange, Following& following, session::News news) {
  if (news.events.empty() && news.deltas.empty() && news.thinks_of == 0)
    co_return co_await exchange.write(http::kEventStreamKeepAlive);
  CO_TRY_VOID(co_await send_all(exchange, take_previews(following, news)));
  for (const session::StoredEvent& stored : news.events) {
    CO_TRY_VOID(co_await send_all(exchange, following.translator.take(stored)));
    CO_TRY_VOID(co_await send_all(exchange, take_previews(following, news)));
  }
  // Pieces that come too late say that none follows.
  if (!news.deltas.empty())
    CO_TRY_VOID(
        co_await send_all(exchange, following.translator.take_delta(news.deltas_of, news.deltas)));
  co_return {};
}

// The last one of a session that is deleted: its log is gone, and nothing else tells of it.
Task<Result<void>> send_farewell(http::Exchange& exchange, const Translator& translator,
                                 std::int64_t now_ms) {
  const std::string id =
      translator.id_of({.seq = translator.state().head + 1, .part = Part::kStatus});
  const Json json = {{"id", id}, {"type", "session.deleted"}, {"processed_at", write_time(now_ms)}};
  co_return co_await exchange.send_event(
      {.id = id, .event = "session.deleted", .data = dump_json(json)});
}

// Whether the session has ended before anybody could be told. Logs of older programs do not say so.
Task<Result<bool>> is_over(session::Sessions& sessions, const std::string& session,
                           const Translator& translator) {
  if (translator.is_over()) co_return true;
  CO_TRY(const auto summary, co_await sessions.log().find(session));
  co_return summary.archived_ms.has_value() && summary.head == translator.state().head;
}

// Ends when the session does; an error when it breaks off.
Task<Result<void>> send_what_comes(session::Sessions& sessions, http::Exchange& exchange,
                                   const std::string& session, Following& following) {
  Translator& translator = following.translator;
  const auto follower = sessions.follow(session, {.after = translator.state().head,
                                                  .with_deltas = following.with_deltas,
                                                  .with_thinking = following.with_thinking});
  CO_TRY(bool is_at_end, co_await is_over(sessions, session, translator));
  while (!is_at_end) {
    CO_TRY(auto news, co_await follower->next(exchange.loop().now() + kKeepAliveTime));
    CO_TRY_VOID(co_await send_news(exchange, following, std::move(news)));
    is_at_end = translator.is_over();
  }
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
  auto sent = co_await send_what_comes(sessions, exchange, view.session, *following);
  if (!sent && sent.error().code == ErrorCode::kNotFound)
    sent = co_await send_farewell(exchange, following->translator, sessions.now_ms());
  if (sent)
    (void)co_await exchange.finish();
  else
    exchange.abort();  // the client comes again with the id it has
}

}  // namespace pons::managed
