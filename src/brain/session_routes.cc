#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "agent_stores.h"
#include "caller_project.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/session/replay.h"
#include "routes.h"

namespace pons::brain {

namespace {

using session::Seq;
using session::Summary;

constexpr std::size_t kBodyBytesMax = 6 << 20;
constexpr Duration kKeepAliveTime = std::chrono::seconds(15);
constexpr std::uint64_t kPageMax = 1'000;
// Of the events of one page: one that is larger is a page of its own.
constexpr std::size_t kPageBytes = 4 << 20;

Result<std::uint64_t> number_of(const http::Exchange& exchange, const char* name,
                                std::uint64_t otherwise, std::uint64_t max) {
  const auto text = TRY(http::find_query(exchange.request().query(), name));
  if (!text || text->empty()) return otherwise;
  const auto number = parse_decimal(*text);
  if (!number || *number > max)
    return make_error(ErrorCode::kInvalid, "read query",
                      fmt::format("{} must be a number up to {}", name, max));
  return *number;
}

Json to_json(const Summary& summary) {
  const session::Usage& usage = summary.usage;
  Json json = {{"id", summary.id},
               {"agent", summary.agent},
               {"title", summary.title},
               {"status", session::name_of(summary.status)},
               {"ended", summary.ended},
               {"head", summary.head},
               {"created_unix_ms", summary.created_ms},
               {"updated_unix_ms", summary.updated_ms},
               {"archived_unix_ms", nullptr},
               {"usage",
                {{"input_tokens", usage.input},
                 {"cache_read_tokens", usage.cache_read},
                 {"cache_write_tokens", usage.cache_write},
                 {"output_tokens", usage.output},
                 {"cost_nano_usd", usage.cost_nano}}}};
  if (!summary.parent.empty()) json["parent"] = summary.parent;
  if (summary.archived_ms) json["archived_unix_ms"] = *summary.archived_ms;
  return json;
}

// Another project's session is none.
Task<Result<Summary>> find_own(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto project, project_of(exchange));
  CO_TRY(auto summary, co_await minds.sessions.log().find(std::move(id)));
  if (summary.project != project)
    co_return make_error(ErrorCode::kNotFound, "find session", "there is no session of this id");
  co_return summary;
}

// A body that is too long is no reason to come again later, as other limits are.
Task<Result<std::string>> read_body(http::Exchange& exchange) {
  auto body = co_await exchange.read_whole_body(kBodyBytesMax);
  if (!body && body.error().code == ErrorCode::kLimit)
    co_return make_error(ErrorCode::kInvalid, "read request",
                         fmt::format("the body is longer than {}", human_bytes(kBodyBytesMax)));
  co_return body;
}

using Work = Task<Result<Json>> (*)(Minds&, http::Exchange&, std::string);

Task<> answer(Work work, Minds& minds, http::Exchange& exchange, std::string word) {
  const auto done = co_await work(minds, exchange, std::move(word));
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

Task<Result<Json>> create_session(Minds& minds, http::Exchange& exchange, std::string) {
  CO_TRY(const auto project, project_of(exchange));
  CO_TRY(const auto body, co_await read_body(exchange));
  CO_TRY(auto wish, parse_new_session(body, project, minds.agents));
  CO_TRY_VOID(co_await find_memory(minds.memories, wish.project, wish.agent.memory));
  CO_TRY(const auto summary, co_await minds.sessions.create(std::move(wish)));
  co_return to_json(summary);
}

Task<Result<Json>> list_sessions(Minds& minds, http::Exchange& exchange, std::string) {
  session::ListQuery query;
  CO_TRY(query.project, project_of(exchange));
  CO_TRY(const auto limit, number_of(exchange, "limit", 100, kPageMax));
  CO_TRY(const auto before, http::find_query(exchange.request().query(), "before"));
  CO_TRY(const auto archived, http::find_query(exchange.request().query(), "archived"));
  query.limit = static_cast<std::int64_t>(limit);
  query.before = before.value_or("");
  query.with_archived = archived.has_value();
  CO_TRY(const auto found, co_await minds.sessions.log().list(std::move(query)));
  Json list = Json::array();
  for (const Summary& summary : found) list.push_back(to_json(summary));
  co_return Json{{"sessions", std::move(list)}};
}

Task<Result<Json>> show_session(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto summary, co_await find_own(minds, exchange, std::move(id)));
  co_return to_json(summary);
}

Task<Result<Json>> add_events(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY_VOID(co_await find_own(minds, exchange, id));
  CO_TRY(const auto body, co_await read_body(exchange));
  CO_TRY(auto inputs, parse_inputs(body));
  CO_TRY(const auto seqs, co_await minds.sessions.add_all(std::move(id), std::move(inputs)));
  co_return Json{{"seqs", seqs}};
}

Task<Result<Json>> list_events(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto summary, co_await find_own(minds, exchange, id));
  CO_TRY(const auto after, number_of(exchange, "after", 0, 1'000'000'000));
  CO_TRY(const auto limit, number_of(exchange, "limit", 200, kPageMax));
  CO_TRY(const auto events,
         co_await minds.sessions.log().read(std::move(id), static_cast<Seq>(after),
                                            static_cast<std::int64_t>(std::max(limit, 1UL))));
  Json list = Json::array();
  Seq last = static_cast<Seq>(after);
  std::size_t bytes = 0;
  for (const session::StoredEvent& stored : events) {
    const std::string text = session::write_public(stored);
    bytes += text.size();
    if (bytes > kPageBytes && !list.empty()) break;
    CO_TRY(auto json, parse_json(text, {.depth = 128, .bytes = std::size_t{64} << 20}));
    list.push_back(std::move(json));
    last = stored.seq;
  }
  co_return Json{{"events", std::move(list)}, {"more", last < summary.head}};
}

Task<Result<Json>> fork_session(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto original, co_await find_own(minds, exchange, std::move(id)));
  CO_TRY(const auto body, co_await read_body(exchange));
  CO_TRY(const auto at, parse_fork(body));
  CO_TRY(const auto summary, co_await minds.sessions.fork(original.id, at, original.project));
  co_return to_json(summary);
}

Task<Result<Json>> archive_session(Minds& minds, http::Exchange& exchange, std::string id) {
  CO_TRY(const auto summary, co_await find_own(minds, exchange, std::move(id)));
  if (summary.archived_ms) co_return to_json(summary);
  const auto archived = co_await minds.sessions.archive(summary.id);
  if (!archived && archived.error().code == ErrorCode::kConflict)
    co_return make_error(ErrorCode::kConflict, "archive session",
                         "the session is at work; interrupt it first");
  if (!archived) co_return archived.error();
  CO_TRY(const auto after, co_await minds.sessions.log().find(summary.id));
  co_return to_json(after);
}

Task<Result<Json>> replay_session(Minds& minds, http::Exchange& exchange, std::string id) {
  // What differs is shown as it is stored.
  if (exchange.peer().role != "operator")
    co_return make_error(ErrorCode::kDenied, "replay session", "this is for the operator");
  CO_TRY(const auto summary, co_await find_own(minds, exchange, std::move(id)));
  CO_TRY(const auto events, co_await minds.sessions.read_all(summary.id));
  Json list = Json::array();
  for (const session::Divergence& divergence : session::replay(events))
    list.push_back(
        {{"seq", divergence.seq}, {"expected", divergence.expected}, {"found", divergence.found}});
  co_return Json{{"events", events.size()}, {"divergences", std::move(list)}};
}

Task<Result<Json>> list_agents(Minds& minds, http::Exchange& exchange, std::string) {
  CO_TRY_VOID(project_of(exchange));
  Json list = Json::array();
  for (const auto& [name, agent] : minds.agents)
    list.push_back({{"name", name},
                    {"model", agent.model},
                    {"template", agent.sandbox_template},
                    {"environment", agent.environment}});
  co_return Json{{"agents", std::move(list)}};
}

// ---- what is more than one JSON object

Task<Result<void>> send_news(http::Exchange& exchange, const session::News& news) {
  if (!news.deltas.empty())
    CO_TRY_VOID(co_await exchange.send_event(
        {.id = {}, .event = "agent.delta", .data = dump_json({{"text", news.deltas}})}));
  for (const session::StoredEvent& stored : news.events)
    CO_TRY_VOID(co_await exchange.send_event({.id = fmt::format("{}", stored.seq),
                                              .event = std::string(type_of(stored.event)),
                                              .data = session::write_public(stored)}));
  if (news.events.empty() && news.deltas.empty())
    CO_TRY_VOID(co_await exchange.write(http::kEventStreamKeepAlive));
  co_return {};
}

Task<Result<Seq>> position_of(Minds& minds, http::Exchange& exchange, const std::string& id) {
  CO_TRY_VOID(co_await find_own(minds, exchange, id));
  CO_TRY(const auto last, http::parse_last_event_id(exchange.request().find("last-event-id")));
  if (last) co_return static_cast<Seq>(*last);
  CO_TRY(const auto after, number_of(exchange, "after", 0, 1'000'000'000));
  co_return static_cast<Seq>(after);
}

Task<> answer_stream(Minds& minds, http::Exchange& exchange, std::string id) {
  const auto after = co_await position_of(minds, exchange, id);
  if (!after) {
    exchange.respond(http::error_response(after.error()));
    co_return;
  }
  const auto follower = minds.sessions.follow(id, {.after = *after});
  if (!co_await exchange.start_events()) co_return;
  for (;;) {
    const auto news = co_await follower->next(exchange.loop().now() + kKeepAliveTime);
    if (!news) {
      exchange.abort();  // the client comes again with the number it has
      co_return;
    }
    if (!co_await send_news(exchange, *news)) co_return;
    const bool is_over = !news->events.empty() &&
                         std::holds_alternative<session::Archived>(news->events.back().event);
    if (is_over) co_return;
  }
}

// All of an output that a tool's result shows only a part of; it leaves, so it is looked at.
Task<> answer_output(Minds& minds, http::Exchange& exchange, std::string id, std::string digest) {
  auto summary = co_await find_own(minds, exchange, std::move(id));
  Result<std::string> bytes = make_error(ErrorCode::kInternal, "read output", "");
  if (!summary)
    bytes = summary.error();
  else
    bytes = co_await minds.sessions.log().read_blob(summary->project, std::move(digest));
  if (bytes) {
    auto clean = co_await minds.boundary.redact({.text = std::move(*bytes)});
    if (clean)
      bytes = std::move(clean->text);
    else
      bytes = clean.error();
  }
  if (bytes)
    exchange.respond({.content_type = "text/plain; charset=utf-8", .body = std::move(*bytes)});
  else
    exchange.respond(http::error_response(bytes.error()));
}

}  // namespace

std::vector<http::Route> session_routes(Minds& minds) {
  const auto plain = [&minds](Work work) -> http::RouteHandler {
    return [&minds, work](http::Exchange& exchange, const http::PathValues& values) {
      return answer(work, minds, exchange, values.empty() ? "" : std::string(values.front()));
    };
  };
  return {{"POST", "/sessions", plain(create_session)},
          {"GET", "/sessions", plain(list_sessions)},
          {"GET", "/sessions/{id}", plain(show_session)},
          {"POST", "/sessions/{id}/events", plain(add_events)},
          {"GET", "/sessions/{id}/events", plain(list_events)},
          {"POST", "/sessions/{id}/fork", plain(fork_session)},
          {"POST", "/sessions/{id}/archive", plain(archive_session)},
          {"POST", "/sessions/{id}/replay", plain(replay_session)},
          {"GET", "/agents", plain(list_agents)},
          {"GET", "/sessions/{id}/stream",
           [&minds](http::Exchange& exchange, const http::PathValues& values) {
             return answer_stream(minds, exchange, std::string(values.front()));
           }},
          {"GET", "/sessions/{id}/outputs/{digest}",
           [&minds](http::Exchange& exchange, const http::PathValues& values) {
             return answer_output(minds, exchange, std::string(values[0]), std::string(values[1]));
           }}};
}

}  // namespace pons::brain
