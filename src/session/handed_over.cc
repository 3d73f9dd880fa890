#include "handed_over.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/session/store_log.h"
#include "pons/session/tool_text.h"

// What is said to one process for a session that another has, in its table.

namespace pons::session {

namespace {

using store::Statement;

struct InputTag {
  static constexpr std::string_view kPrefix = "inp";
};

// Of one session: whoever has it is far behind then.
constexpr std::int64_t kWaitingMax = 500;
// Whoever asked has long heard, or will never.
constexpr std::int64_t kRepliesKeptMs = 10 * 60'000;
constexpr std::int64_t kUnansweredKeptMs = 24 * 3'600'000;
constexpr std::size_t kMessageBytesMax = 4'000;

constexpr ErrorCode kCodes[] = {
    ErrorCode::kInvalid, ErrorCode::kNotFound, ErrorCode::kDenied,      ErrorCode::kConflict,
    ErrorCode::kLimit,   ErrorCode::kTimeout,  ErrorCode::kUnavailable, ErrorCode::kUnsupported,
    ErrorCode::kIo,      ErrorCode::kInternal};

// As large as all that one request may say.
constexpr JsonLimits kLimits{.depth = 128, .bytes = std::size_t{64} << 20};

Error is_none(const char* what) {
  return make_error(ErrorCode::kIo, "read what was handed over", what);
}

ErrorCode code_of(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kCodes, [&](ErrorCode code) { return to_string(code) == name; });
  return found == std::end(kCodes) ? ErrorCode::kInternal : *found;
}

}  // namespace

std::string write_inputs(const std::vector<Event>& inputs) {
  Json list = Json::array();
  for (const Event& input : inputs)
    list.push_back({{"type", type_of(input)}, {"body", write_body(input)}});
  return dump_json(list);
}

Result<std::vector<Event>> read_inputs(std::string_view text) {
  const Json list = TRY(parse_json(text, kLimits));
  if (!list.is_array()) return is_none("it is no list");
  std::vector<Event> inputs;
  for (const Json& one : list) {
    const bool is_event = one.is_object() && one.contains("type") && one["type"].is_string() &&
                          one.contains("body") && one["body"].is_string();
    if (!is_event) return is_none("one of it is no event");
    inputs.push_back(TRY(read_event(one["type"].get_ref<const std::string&>(),
                                    one["body"].get_ref<const std::string&>())));
  }
  return inputs;
}

std::string write_seqs(const std::vector<Seq>& seqs) {
  return dump_json(Json(seqs));
}

Result<std::vector<Seq>> read_seqs(std::string_view text) {
  const Json list = TRY(parse_json(text, kLimits));
  if (!list.is_array()) return is_none("its numbers are no list");
  std::vector<Seq> seqs;
  for (const Json& seq : list) {
    if (!seq.is_number_unsigned() ||
        seq.get<std::uint64_t>() > static_cast<std::uint64_t>(kNumberMax))
      return is_none("one of its numbers is none");
    seqs.push_back(seq.get<Seq>());
  }
  return seqs;
}

Task<Result<std::string>> StoreLog::hand_over(std::string session, std::vector<Event> inputs) {
  const std::string id = Id<InputTag>::generate().text();
  store::Transaction all;
  all.push_back({.sql = "INSERT INTO session_inputs (id, session_id, project_id, events, created) "
                        "SELECT $1, s.id, s.project_id, $2, CAST($3 AS BIGINT) FROM sessions AS s "
                        "WHERE s.id = $4 AND (SELECT count(*) FROM session_inputs "
                        "WHERE session_id = $4 AND answered IS NULL) < $5",
                 .values = {id, write_inputs(inputs), now_ms(), session, kWaitingMax}});
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  if (outcomes.front().changed == 0)
    co_return make_error(ErrorCode::kLimit, "add to session",
                         "the session does not take what was said before; try again later");
  ring(kInputTopic, session);
  co_return id;
}

Task<Result<std::vector<HandedOver>>> StoreLog::list_inputs(std::int64_t limit) {
  Statement statement{.sql = {}, .values = {options_.owner, limit}};
  const std::string lapsed = lapsed_before(statement.values);
  statement.sql = fmt::format(
      "SELECT i.id, i.session_id, i.events FROM session_inputs AS i "
      "JOIN sessions AS s ON s.id = i.session_id WHERE i.answered IS NULL "
      "AND (s.owner = $1 OR (s.lease_until < {0} AND NOT EXISTS (SELECT 1 FROM nodes "
      "WHERE name = s.owner AND alive_until >= {0}))) ORDER BY i.created, i.id LIMIT $2",
      lapsed);
  constexpr std::size_t kLimitAt = 1;
  CO_TRY(const auto rows, co_await read_as_many(std::move(statement), kLimitAt));
  std::vector<HandedOver> waiting;
  for (const store::Row& row : rows) {
    HandedOver input;
    CO_TRY(input.id, store::text_of(row, 0));
    CO_TRY(input.session, store::text_of(row, 1));
    CO_TRY(const auto events, store::text_of(row, 2));
    CO_TRY(input.events, read_inputs(events));
    waiting.push_back(std::move(input));
  }
  co_return waiting;
}

Task<Result<void>> StoreLog::reply(std::string handed_over, std::string session, Reply reply) {
  Statement statement{
      .sql =
          "UPDATE session_inputs SET answered = $1, seqs = $2, error_code = $3, "
          "error_message = $4 WHERE id = $5 AND answered IS NULL",
      .values = {now_ms(), store::Null{}, store::Null{}, store::Null{}, std::move(handed_over)}};
  if (reply) {
    statement.values[1] = write_seqs(*reply);
  } else {
    statement.values[2] = std::string(to_string(reply.error().code));
    statement.values[3] = shorten(reply.error().message, kMessageBytesMax);
  }
  store::Transaction all;
  all.push_back(std::move(statement));
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  ring(kSessionTopic, session);
  co_return {};
}

Task<Result<std::optional<Reply>>> StoreLog::find_reply(std::string handed_over) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT answered, seqs, error_code, error_message "
                                      "FROM session_inputs WHERE id = $1",
                               .values = {std::move(handed_over)}}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "add to session",
                         "what became of it is not known any more");
  const store::Row& row = rows.front();
  CO_TRY(const auto answered, store::optional_integer_of(row, 0));
  if (!answered) co_return std::optional<Reply>();
  if (const auto seqs = store::text_of(row, 1)) {
    CO_TRY(auto numbers, read_seqs(*seqs));
    co_return std::optional<Reply>(std::move(numbers));
  }
  CO_TRY(const auto code, store::text_of(row, 2));
  CO_TRY(auto message, store::text_of(row, 3));
  co_return std::optional<Reply>(
      Reply(make_error(code_of(code), "add to session", std::move(message))));
}

Task<Result<void>> StoreLog::forget_replies() {
  store::Transaction all;
  all.push_back({.sql = "DELETE FROM session_inputs WHERE answered < $1 OR created < $2",
                 .values = {now_ms() - kRepliesKeptMs, now_ms() - kUnansweredKeptMs}});
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

Task<Result<std::map<std::string, Seq>>> StoreLog::read_heads(std::vector<std::string> sessions) {
  constexpr std::size_t kAtOnce = 200;
  std::map<std::string, Seq> heads;
  for (std::size_t begin = 0; begin < sessions.size(); begin += kAtOnce) {
    Statement statement{.sql = "SELECT id, head FROM sessions WHERE id IN (", .values = {}};
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, sessions.size()); ++i) {
      statement.values.emplace_back(std::move(sessions[i]));
      statement.sql += fmt::format("{}${}", i == begin ? "" : ", ", i - begin + 1);
    }
    statement.sql += ")";
    CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
    for (const store::Row& row : rows) {
      CO_TRY(auto id, store::text_of(row, 0));
      CO_TRY(const auto head, store::integer_of(row, 1));
      heads.emplace(std::move(id), head);
    }
  }
  co_return heads;
}

}  // namespace pons::session
