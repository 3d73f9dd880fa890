#include "pons/session/store_log.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "handed_over.h"

namespace pons::session {

namespace {

using store::Statement;
using store::Value;

// A value of the store has a limit of its own.
constexpr std::size_t kBlobPartBytes = 512 << 10;

constexpr std::string_view kSummaryColumns =
    "id, project_id, agent, parent_id, title, status, ended, parent_call, head, created, updated, "
    "archived, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_nano, home";
// It waits for something that is not a person.
constexpr std::string_view kAtWork = "status <> 'idle' AND status <> 'waits_for_person'";

Value dedupe_of(const Event& event) {
  const auto* message = std::get_if<UserMessage>(&event);
  if (message == nullptr || message->dedupe.empty()) return store::Null{};
  return message->dedupe;
}

// Each statement stores its events only while the session is still the writer's, and still as long
// as the writer thinks.
Statement insert_events(const Lease& lease, Seq head, std::span<const StoredEvent> events) {
  std::string rows;
  std::vector<Value> values = {lease.session, lease.epoch, head};
  for (const StoredEvent& stored : events) {
    const std::size_t n = values.size();
    rows += fmt::format("{}(CAST(${} AS BIGINT), CAST(${} AS BIGINT), ${}, ${}, ${})",
                        rows.empty() ? "" : ", ", n + 1, n + 2, n + 3, n + 4, n + 5);
    values.insert(values.end(), {stored.seq, stored.at_ms, std::string(type_of(stored.event)),
                                 write_body(stored.event), dedupe_of(stored.event)});
  }
  return {.sql = fmt::format(
              "INSERT INTO session_events (session_id, seq, project_id, at, type, body, dedupe) "
              "SELECT s.id, v.column1, s.project_id, v.column2, v.column3, v.column4, v.column5 "
              "FROM sessions AS s CROSS JOIN (VALUES {}) AS v "
              "WHERE s.id = $1 AND s.epoch = $2 AND s.head = $3",
              rows),
          .values = std::move(values),
          .must_change = static_cast<std::int64_t>(events.size())};
}

// One statement, unless it would be longer than the store takes.
void insert_events(const Lease& lease, std::span<const StoredEvent> events,
                   store::Transaction& out) {
  constexpr std::size_t kEventsPerStatement = 150;
  const Seq head = events.front().seq - 1;
  for (; events.size() > kEventsPerStatement; events = events.subspan(kEventsPerStatement))
    out.push_back(insert_events(lease, head, events.first(kEventsPerStatement)));
  out.push_back(insert_events(lease, head, events));
}

// What was handed over is among the events now; a second time it is none.
Statement note_taken(const TakenOver& taken, std::int64_t now_ms) {
  return {.sql =
              "UPDATE session_inputs SET seqs = $1, answered = $2 "
              "WHERE id = $3 AND answered IS NULL",
          .values = {write_seqs(taken.seqs), now_ms, taken.id},
          .must_change = 1};
}

void insert_blob(const std::string& project, const Blob& blob, store::Transaction& out) {
  for (std::size_t at = 0, part = 0; at == 0 || at < blob.bytes.size();
       at += kBlobPartBytes, ++part)
    out.push_back({.sql =
                       "INSERT INTO session_blobs (project_id, digest, part, bytes) "
                       "VALUES ($1, $2, $3, $4) ON CONFLICT (project_id, digest, part) DO NOTHING",
                   .values = {project, blob.digest, static_cast<std::int64_t>(part),
                              store::Blob{blob.bytes.substr(at, kBlobPartBytes)}}});
}

Statement insert_chore(const Chore& chore, std::int64_t now_ms) {
  return {.sql =
              "INSERT INTO session_chores (id, project_id, session_id, kind, what, created, node) "
              "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING",
          .values = {chore.id, chore.project, chore.session, chore.kind, chore.what, now_ms,
                     chore.node}};
}

Result<Status> status_at(const store::Row& row, std::size_t column) {
  const std::string name = TRY(store::text_of(row, column));
  for (const Status status : {Status::kIdle, Status::kRunning, Status::kWaitsForPerson,
                              Status::kRescheduled, Status::kWaitsInThread, Status::kWaitsAtWork})
    if (name == name_of(status)) return status;
  return make_error(ErrorCode::kIo, "read session", fmt::format("unknown status \"{}\"", name));
}

Result<Summary> summary_of(const store::Row& row) {
  Summary summary;
  std::size_t column = 0;
  for (std::string* text :
       {&summary.id, &summary.project, &summary.agent, &summary.parent, &summary.title})
    *text = TRY(store::text_of(row, column++));
  summary.status = TRY(status_at(row, column++));
  summary.ended = TRY(store::text_of(row, column++));
  for (std::int64_t* number :
       {&summary.parent_call, &summary.head, &summary.created_ms, &summary.updated_ms})
    *number = TRY(store::integer_of(row, column++));
  summary.archived_ms = TRY(store::optional_integer_of(row, column++));
  Usage& usage = summary.usage;
  for (std::int64_t* number :
       {&usage.input, &usage.cache_read, &usage.cache_write, &usage.output, &usage.cost_nano})
    *number = TRY(store::integer_of(row, column++));
  summary.home = TRY(store::text_of(row, column++));
  return summary;
}

Result<Lease> lease_of(const store::Row& row) {
  Lease lease;
  lease.session = TRY(store::text_of(row, 0));
  lease.project = TRY(store::text_of(row, 1));
  lease.epoch = TRY(store::integer_of(row, 2));
  return lease;
}

}  // namespace

StoreLog::StoreLog(store::Store& store, const Clock& clock, StoreLogOptions options)
    : store_(store), clock_(clock), options_(std::move(options)) {}

std::int64_t StoreLog::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

std::string StoreLog::lease_now(std::vector<store::Value>& values) const {
  // Not clock_timestamp(), which would keep the server from using an index.
  if (options_.uses_servers_clock) return "CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT)";
  values.emplace_back(now_ms());
  return fmt::format("CAST(${} AS BIGINT)", values.size());
}

// When the store was out of reach, everybody's leases are over, and everybody is still there: who
// has not been heard by it for the length of one does not know who is gone.
std::string StoreLog::lapsed_before(std::vector<store::Value>& values) const {
  constexpr std::int64_t kNotNowMs = 24 * 3'600'000;
  const std::string now = lease_now(values);
  const bool knows = options_.bell == nullptr ||
                     (renewed_ != TimePoint{} && clock_.now() - renewed_ <= options_.lease &&
                      clock_.now() - heard_since_ >= options_.lease);
  values.emplace_back(knows ? std::int64_t{0} : kNotNowMs);
  return fmt::format("{} - ${}", now, values.size());
}

void StoreLog::ring(std::string_view topic, const std::string& session) const {
  if (options_.bell != nullptr) options_.bell->ring(fmt::format("{}{}", topic, session));
}

// An idle session is anybody's. In PostgreSQL a lease that is still fresh stays as it is: it is in
// an index, and a row none of whose indexed columns change is rewritten in its place.
Statement StoreLog::update_summary(const Lease& lease, const Summary& summary) const {
  const Usage& usage = summary.usage;
  const bool rests = is_at_rest(summary.status);
  Statement statement{
      .sql = {},
      .values = {std::string(name_of(summary.status)), summary.ended, summary.head,
                 summary.updated_ms, usage.input, usage.cache_read, usage.cache_write, usage.output,
                 usage.cost_nano, lease.session, lease.epoch, summary.home},
      .must_change = 1};
  std::string until = "0";
  if (!rests) {
    statement.values.emplace_back(lease_ms());
    const std::size_t length = statement.values.size();
    const std::string now = lease_now(statement.values);
    until = fmt::format("{} + ${}", now, length);
    if (is_postgres())
      until = fmt::format("CASE WHEN lease_until > {0} + ${1} / 2 THEN lease_until ELSE {2} END",
                          now, length, until);
  }
  statement.sql = fmt::format(
      "UPDATE sessions SET status = $1, ended = $2, head = $3, updated = $4, lease_until = {}, "
      "input_tokens = $5, cache_read_tokens = $6, cache_write_tokens = $7, output_tokens = $8, "
      "cost_nano = $9, home = $12 WHERE id = $10 AND epoch = $11",
      until);
  return statement;
}

Task<Result<Lease>> StoreLog::create(Summary summary, std::vector<StoredEvent> events) {
  const Lease lease{.session = summary.id, .project = summary.project, .epoch = 1};
  store::Transaction all;
  all.push_back(
      {.sql = "INSERT INTO sessions (id, project_id, agent, parent_id, title, status, ended, head, "
              "epoch, owner, lease_until, created, updated, input_tokens, cache_read_tokens, "
              "cache_write_tokens, output_tokens, cost_nano, parent_call) "
              "SELECT $1, $2, $3, $4, $5, 'idle', '', 0, 1, $6, 0, $7, $7, 0, 0, 0, 0, 0, $8 "
              "WHERE $4 <> '' OR (SELECT sessions_max FROM projects WHERE id = $2) IS NULL "
              "OR (SELECT count(*) FROM sessions WHERE project_id = $2 AND archived IS NULL "
              "AND parent_id = '') < (SELECT sessions_max FROM projects WHERE id = $2)",
       .values = {summary.id, summary.project, summary.agent, summary.parent, summary.title,
                  options_.owner, summary.created_ms, summary.parent_call},
       .must_change = 1});
  insert_events(lease, events, all);
  all.push_back(update_summary(lease, summary));
  auto written = co_await store_.write(std::move(all));
  if (!written && written.error().code == ErrorCode::kConflict)
    co_return co_await why_not_made(std::move(summary), std::move(written).error());
  if (!written) co_return written.error();
  co_return lease;
}

// There is one of that id; or the project may have no more.
Task<Error> StoreLog::why_not_made(Summary summary, Error otherwise) {
  const auto rows = co_await store_.read(
      {.sql =
           "SELECT sessions_max FROM projects WHERE id = $1 AND sessions_max <= (SELECT count(*) "
           "FROM sessions WHERE project_id = $1 AND archived IS NULL AND parent_id = '') "
           "AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = $2)",
       .values = {summary.project, summary.id}});
  if (!rows || rows->empty()) co_return otherwise;
  co_return make_error(ErrorCode::kLimit, "create session",
                       fmt::format("this project has {} sessions, which is the most it may have; "
                                   "archive or delete some, or ask the operator for more",
                                   store::integer_of(rows->front(), 0).value_or(0)));
}

Task<Result<Lease>> StoreLog::take(std::string session, Take how) {
  Statement statement{.sql = {}, .values = {options_.owner, lease_ms(), session}};
  const std::string now = lease_now(statement.values);
  const std::string lapsed = lapsed_before(statement.values);
  const std::string home =
      how == Take::kAnyway ? std::string()
                           : fmt::format(
                                 " AND (home = '' OR home = $1 OR NOT EXISTS (SELECT 1 FROM nodes "
                                 "WHERE name = sessions.home AND alive_until >= {}))",
                                 lapsed);
  statement.sql = fmt::format(
      "UPDATE sessions SET epoch = epoch + 1, owner = $1, lease_until = {} + $2 "
      "WHERE id = $3 AND archived IS NULL AND (owner = $1 OR (lease_until < {}{})) "
      "RETURNING id, project_id, epoch",
      now, lapsed, home);
  store::Transaction all;
  all.push_back(std::move(statement));
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  if (outcomes.front().rows.empty()) co_return co_await why_not(std::move(session));
  co_return lease_of(outcomes.front().rows.front());
}

// In PostgreSQL others who claim at the same moment pass over the rows that this one has; the list
// is made once, before anything is changed. SQLite has one writer.
Task<Result<std::vector<Lease>>> StoreLog::claim(std::int64_t limit) {
  Statement statement{.sql = {}, .values = {options_.owner, lease_ms(), limit}};
  const std::string now = lease_now(statement.values);
  const std::string left = fmt::format(
      "SELECT id FROM sessions WHERE {} AND archived IS NULL AND owner <> $1 AND lease_until < {} "
      "ORDER BY lease_until, id LIMIT $3",
      kAtWork, lapsed_before(statement.values));
  statement.sql = fmt::format(
      "UPDATE sessions SET epoch = epoch + 1, owner = $1, lease_until = {} + $2 WHERE id {} "
      "RETURNING id, project_id, epoch",
      now,
      is_postgres() ? fmt::format("= ANY (ARRAY ({} FOR UPDATE SKIP LOCKED))", left)
                    : fmt::format("IN ({})", left));
  store::Transaction all;
  all.push_back(std::move(statement));
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  std::vector<Lease> leases;
  for (const store::Row& row : outcomes.front().rows) {
    CO_TRY(auto lease, lease_of(row));
    leases.push_back(std::move(lease));
  }
  co_return leases;
}

Task<Error> StoreLog::why_not(std::string session) {
  const auto found = co_await find(std::move(session));
  if (!found) co_return found.error();
  if (found->archived_ms)
    co_return make_error(ErrorCode::kInvalid, "take session",
                         "the session is archived; `pons sessions fork` continues it in a new one");
  co_return make_error(ErrorCode::kConflict, "take session", "another process has the session");
}

Task<Result<void>> StoreLog::append(const Batch& batch) {
  store::Transaction all;
  // What is long goes first: whoever is lost while it is sent has no row of the session locked.
  for (const Blob& blob : batch.blobs) insert_blob(batch.lease.project, blob, all);
  insert_events(batch.lease, batch.events, all);
  all.push_back(update_summary(batch.lease, batch.summary));
  for (const Chore& chore : batch.chores) all.push_back(insert_chore(chore, now_ms()));
  for (const TakenOver& taken : batch.taken) all.push_back(note_taken(taken, now_ms()));
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  ring(kSessionTopic, batch.lease.session);
  if (std::ranges::any_of(batch.chores,
                          [this](const Chore& chore) { return chore.node != options_.owner; }))
    ring(kChoreTopic, "");
  co_return {};
}

// Where others are, they see by it also who is there to have idle sessions.
Task<Result<void>> StoreLog::renew() {
  store::Transaction all;
  Statement sessions{.sql = {}, .values = {options_.owner, lease_ms()}};
  sessions.sql = fmt::format("UPDATE sessions SET lease_until = {} + $2 WHERE owner = $1 AND {}",
                             lease_now(sessions.values), kAtWork);
  all.push_back(std::move(sessions));
  if (options_.bell != nullptr) {
    Statement node{.sql = {}, .values = {options_.owner, lease_ms(), now_ms()}};
    node.sql = fmt::format(
        "INSERT INTO nodes (name, started, alive_until) VALUES ($1, $3, {} + $2) "
        "ON CONFLICT (name) DO UPDATE SET alive_until = excluded.alive_until",
        lease_now(node.values));
    all.push_back(std::move(node));
  }
  const TimePoint begun = clock_.now();
  const auto written = co_await store_.write(std::move(all));
  const TimePoint now = clock_.now();
  // A store that was slow to us may have been out of reach for others: they get their time to come
  // back, counted from when it answers again.
  constexpr int kSlowPart = 4;
  const bool was_away = !written || now - begun > options_.lease / kSlowPart;
  if (renewed_ == TimePoint{} || begun - renewed_ > options_.lease || was_away) heard_since_ = now;
  if (!written) co_return written.error();
  renewed_ = begun;
  co_return {};
}

Task<Result<std::vector<store::Row>>> StoreLog::read_as_many(Statement statement,
                                                             std::size_t limit_at) {
  auto rows = co_await store_.read(statement);
  auto& limit = std::get<std::int64_t>(statement.values[limit_at]);
  // Together they are more than the store gives at once; each alone is not.
  while (!rows && rows.error().code == ErrorCode::kLimit && limit > 1) {
    limit = std::max<std::int64_t>(1, limit / 4);
    rows = co_await store_.read(statement);
  }
  co_return rows;
}

Task<Result<std::vector<StoredEvent>>> StoreLog::read(std::string session, Seq after,
                                                      std::int64_t limit) {
  Statement statement{.sql =
                          "SELECT seq, at, type, body FROM session_events "
                          "WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
                      .values = {std::move(session), after, limit}};
  constexpr std::size_t kLimitAt = 2;
  CO_TRY(const auto rows, co_await read_as_many(std::move(statement), kLimitAt));
  std::vector<StoredEvent> events;
  for (const store::Row& row : rows) {
    StoredEvent stored;
    CO_TRY(stored.seq, store::integer_of(row, 0));
    CO_TRY(stored.at_ms, store::integer_of(row, 1));
    if (stored.at_ms < 0 || stored.at_ms > kNumberMax)
      co_return make_error(ErrorCode::kIo, "read session", "an event has no time");
    CO_TRY(const auto type, store::text_of(row, 2));
    CO_TRY(const auto body, store::text_of(row, 3));
    CO_TRY(stored.event, read_event(type, body));
    events.push_back(std::move(stored));
  }
  co_return events;
}

Task<Result<Summary>> StoreLog::find(std::string session) {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM sessions WHERE id = $1", kSummaryColumns),
              .values = {std::move(session)}}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find session", "there is no session of this id");
  co_return summary_of(rows.front());
}

Task<Result<std::vector<Summary>>> StoreLog::list(ListQuery query) {
  // From one behind that one on: by its time, then by its id, as the index is.
  Statement statement{
      .sql = fmt::format("SELECT {0} FROM sessions WHERE project_id = $1 "
                         "AND ($2 = '' OR (created, id) < (SELECT created, id FROM sessions "
                         "WHERE id = $2)) {1} ORDER BY created DESC, id DESC LIMIT $3",
                         kSummaryColumns, query.with_archived ? "" : "AND archived IS NULL"),
      .values = {query.project, query.before, query.limit}};
  if (!query.parent.empty()) {
    // In the words of the index.
    constexpr std::string_view kWhere = "WHERE project_id = $1 ";
    statement.sql.insert(statement.sql.find(kWhere) + kWhere.size(),
                         "AND parent_id <> '' AND parent_id = $4 ");
    statement.values.emplace_back(query.parent);
  }
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<Summary> found;
  for (const store::Row& row : rows) {
    CO_TRY(auto summary, summary_of(row));
    found.push_back(std::move(summary));
  }
  co_return found;
}

Task<Result<std::vector<std::string>>> StoreLog::list_orphans(std::string after,
                                                              std::int64_t limit) {
  Statement statement{.sql = {}, .values = {options_.owner, limit, std::move(after)}};
  statement.sql = fmt::format(
      "SELECT id FROM sessions WHERE {} AND (owner = $1 OR lease_until < {}) AND id > $3 "
      "ORDER BY id LIMIT $2",
      kAtWork, lapsed_before(statement.values));
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<std::string> ids;
  for (const store::Row& row : rows) {
    CO_TRY(auto id, store::text_of(row, 0));
    ids.push_back(std::move(id));
  }
  co_return ids;
}

// Nobody appends to it any more: the epoch is another. What the log says of it is stored in the
// same commit, so that whoever follows it sees an end, and nothing behind it.
Task<Result<std::vector<StoredEvent>>> StoreLog::archive(std::string session, std::int64_t at_ms,
                                                         Farewell farewell) {
  std::vector<StoredEvent> said;
  if (farewell == Farewell::kSaid) said.push_back({.at_ms = at_ms, .event = Archived{}});
  store::Transaction all;
  all.push_back({.sql = fmt::format("UPDATE sessions SET archived = $1, updated = $1, "
                                    "epoch = epoch + 1, head = head + {} WHERE id = $2 "
                                    "AND archived IS NULL AND status = 'idle' RETURNING head",
                                    said.size()),
                 .values = {at_ms, session},
                 .must_change = 1});
  for (const StoredEvent& stored : said)
    all.push_back(
        {.sql = "INSERT INTO session_events (session_id, seq, project_id, at, type, body) "
                "SELECT id, head, project_id, CAST($1 AS BIGINT), CAST($2 AS TEXT), "
                "CAST($3 AS TEXT) FROM sessions WHERE id = $4",
         .values = {at_ms, std::string(type_of(stored.event)), write_body(stored.event), session},
         .must_change = 1});
  CO_TRY(const auto outcomes, co_await store_.write(std::move(all)));
  for (StoredEvent& stored : said) {
    CO_TRY(stored.seq, store::integer_of(outcomes.front().rows.front(), 0));
    ring(kSessionTopic, session);
  }
  co_return said;
}

Task<Result<std::string>> StoreLog::read_blob(std::string project, std::string digest) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT bytes FROM session_blobs WHERE project_id = $1 "
                                      "AND digest = $2 ORDER BY part",
                               .values = {std::move(project), std::move(digest)}}));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "read output", "there is no output of this digest");
  std::string all;
  for (const store::Row& row : rows) {
    const auto* part = row.empty() ? nullptr : std::get_if<store::Blob>(&row.front());
    if (part == nullptr) co_return make_error(ErrorCode::kIo, "read output", "a part is no bytes");
    all += part->bytes;
  }
  co_return all;
}

Task<Result<std::vector<Chore>>> StoreLog::list_chores(std::int64_t limit) {
  // What can be done anywhere is done by others, too, when the one that was to do it is gone.
  const std::string node = options_.bell == nullptr ? std::string() : options_.owner;
  Statement statement{.sql = {}, .values = {node, limit}};
  statement.sql = fmt::format(
      "SELECT id, project_id, session_id, kind, what, node FROM session_chores "
      "WHERE node = $1 OR node = '' OR (kind IN ('stop_session', 'charge_question') "
      "AND NOT EXISTS (SELECT 1 "
      "FROM nodes WHERE name = session_chores.node AND alive_until >= {})) "
      "ORDER BY created, id LIMIT $2",
      lapsed_before(statement.values));
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<Chore> chores;
  for (const store::Row& row : rows) {
    Chore chore;
    std::size_t column = 0;
    for (std::string* text :
         {&chore.id, &chore.project, &chore.session, &chore.kind, &chore.what, &chore.node}) {
      CO_TRY(*text, store::text_of(row, column++));
    }
    chores.push_back(std::move(chore));
  }
  co_return chores;
}

Task<Result<void>> StoreLog::finish_chores(std::vector<std::string> ids) {
  store::Transaction all;
  for (std::string& id : ids)
    all.push_back({.sql = "DELETE FROM session_chores WHERE id = $1", .values = {std::move(id)}});
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

}  // namespace pons::session
