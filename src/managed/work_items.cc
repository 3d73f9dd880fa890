#include "work_items.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/id.h"

namespace pons::managed {

namespace {

constexpr std::int64_t kUsualTtl = 90;
constexpr std::size_t kIdLength = 26;
constexpr std::int64_t kNewAtOnce = 100;
constexpr const char* kColumns =
    "id, project_id, environment_id, session_id, state, metadata, created, offered, acknowledged, "
    "started, heartbeat, ttl, stop_requested, stopped";

Result<std::optional<std::int64_t>> time_of(const store::Row& row, std::size_t column) {
  if (std::holds_alternative<store::Null>(row[column])) return std::nullopt;
  return TRY(store::integer_of(row, column));
}

Result<WorkItem> item_of(const store::Row& row) {
  return WorkItem{.id = TRY(store::text_of(row, 0)),
                  .project = TRY(store::text_of(row, 1)),
                  .environment = TRY(store::text_of(row, 2)),
                  .session = TRY(store::text_of(row, 3)),
                  .state = TRY(store::text_of(row, 4)),
                  .metadata = TRY(store::text_of(row, 5)),
                  .created_ms = TRY(store::integer_of(row, 6)),
                  .offered_ms = TRY(store::integer_of(row, 7)),
                  .acknowledged_ms = TRY(time_of(row, 8)),
                  .started_ms = TRY(time_of(row, 9)),
                  .heartbeat_ms = TRY(time_of(row, 10)),
                  .ttl_seconds = TRY(store::integer_of(row, 11)),
                  .stop_requested_ms = TRY(time_of(row, 12)),
                  .stopped_ms = TRY(time_of(row, 13))};
}

Refusal changed_meanwhile() {
  return conflict("the work was changed meanwhile; read it again");
}

}  // namespace

std::int64_t WorkItems::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Result<std::vector<WorkItem>>> WorkItems::read(std::string where,
                                                    std::vector<store::Value> values) {
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM work_items WHERE {}", kColumns, where),
              .values = std::move(values)}));
  std::vector<WorkItem> items;
  for (const store::Row& row : rows) {
    CO_TRY(auto item, item_of(row));
    items.push_back(std::move(item));
  }
  co_return items;
}

// What a worker that is gone has left is stopped, and so is what nobody has taken of a session that
// rests, or is no more; what does not rest and is nobody's is queued.
Task<Result<void>> WorkItems::bring_up_to_date(WorkPlace place) {
  const std::int64_t now = now_ms();
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE work_items SET state = 'stopped', stopped = $1 WHERE environment_id = $2 "
               "AND project_id = $3 AND lease_until < $1 "
               "AND state IN ('starting', 'active', 'stopping')",
        .values = {now, place.environment, place.project}},
       {.sql = "UPDATE work_items SET state = 'stopped', stopped = $1 WHERE environment_id = $2 "
               "AND project_id = $3 AND state = 'queued' AND NOT EXISTS "
               "(SELECT 1 FROM sessions AS s WHERE s.id = work_items.session_id "
               "AND s.archived IS NULL AND s.status <> 'idle')",
        .values = {now, place.environment, place.project}}}));
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = "SELECT o.session_id FROM session_orders AS o JOIN sessions AS s "
                     "ON s.id = o.session_id WHERE o.environment_id = $1 AND o.project_id = $2 "
                     "AND s.archived IS NULL AND s.status <> 'idle' AND NOT EXISTS "
                     "(SELECT 1 FROM work_items AS w WHERE w.session_id = o.session_id "
                     "AND w.state <> 'stopped') LIMIT $3",
              .values = {place.environment, place.project, kNewAtOnce}}));
  for (const store::Row& row : rows) {
    CO_TRY(const auto session, store::text_of(row, 0));
    const auto written = co_await store_.write(
        {{.sql = "INSERT INTO work_items (id, project_id, environment_id, session_id, state, "
                 "metadata, created, offered, ttl, lease_until) "
                 "VALUES ($1, $2, $3, $4, 'queued', '{}', $5, 0, $6, 0)",
          .values = {"work_" + random_text(kIdLength), place.project, place.environment, session,
                     now, kUsualTtl}}});
    // Another process was faster.
    if (!written && written.error().code != ErrorCode::kConflict) co_return written.error();
  }
  co_return {};
}

Task<Reply<std::optional<WorkItem>>> WorkItems::offer(WorkPlace place, Duration reclaim) {
  CO_TRY_VOID(co_await bring_up_to_date(place));
  const std::int64_t now = now_ms();
  const std::int64_t before =
      now - std::chrono::duration_cast<std::chrono::milliseconds>(reclaim).count();
  constexpr int kTries = 5;
  for (int i = 0; i < kTries; ++i) {
    CO_TRY(auto free, co_await read("environment_id = $1 AND project_id = $2 AND state = 'queued' "
                                    "AND offered <= $3 ORDER BY created, id LIMIT 1",
                                    {place.environment, place.project, before}));
    if (free.empty()) break;
    const auto taken = co_await store_.write(
        {{.sql = "UPDATE work_items SET offered = $1 WHERE id = $2 AND state = 'queued' "
                 "AND offered = $3",
          .values = {now, free.front().id, free.front().offered_ms},
          .must_change = 1}});
    if (taken) co_return std::optional(std::move(free.front()));
    if (taken.error().code != ErrorCode::kConflict) co_return taken.error();
  }
  co_return std::optional<WorkItem>();
}

Task<Reply<WorkItem>> WorkItems::find(WorkPlace place, std::string id) {
  CO_TRY(auto found, co_await read("id = $1 AND environment_id = $2 AND project_id = $3",
                                   {std::move(id), place.environment, place.project}));
  if (found.empty()) co_return no_such("work");
  co_return std::move(found.front());
}

Task<Reply<WorkItem>> WorkItems::acknowledge(WorkPlace place, std::string id) {
  CO_TRY(const auto item, co_await find(place, id));
  if (item.state == "starting" && !item.heartbeat_ms) co_return item;  // said again
  if (item.state != "queued") co_return conflict("the work is somebody's, or over");
  const std::int64_t now = now_ms();
  const auto written = co_await store_.write(
      {{.sql = "UPDATE work_items SET state = 'starting', acknowledged = $1, lease_until = $2 "
               "WHERE id = $3 AND state = 'queued'",
        .values = {now, now + item.ttl_seconds * 1'000, id},
        .must_change = 1}});
  if (!written && written.error().code == ErrorCode::kConflict) co_return changed_meanwhile();
  if (!written) co_return written.error();
  co_return co_await find(std::move(place), std::move(id));
}

Task<Reply<WorkItem>> WorkItems::heartbeat(WorkPlace place, std::string id,
                                           std::int64_t ttl_seconds,
                                           std::optional<std::string> expected) {
  CO_TRY(const auto item, co_await find(place, id));
  if (item.state == "stopping" || item.state == "stopped") co_return item;
  if (item.state == "queued") co_return conflict("nobody has acknowledged the work");
  const std::string last = item.heartbeat_ms ? write_time(*item.heartbeat_ms) : "NO_HEARTBEAT";
  if (expected && *expected != last) {
    Refusal refusal{412, "invalid_request_error",
                    "somebody else reports on this work: the last heartbeat was " + last};
    refusal.code = "heartbeat_precondition_failed";
    co_return refusal;
  }
  const std::int64_t now = std::max(now_ms(), item.heartbeat_ms.value_or(0) + 1);
  const std::int64_t ttl = ttl_seconds == 0 ? item.ttl_seconds : ttl_seconds;
  const auto written = co_await store_.write(
      {{.sql = "UPDATE work_items SET state = 'active', heartbeat = $1, ttl = $2, "
               "lease_until = $3, started = COALESCE(started, $1) WHERE id = $4 "
               "AND state IN ('starting', 'active') AND COALESCE(heartbeat, 0) = $5",
        .values = {now, ttl, now + ttl * 1'000, id, item.heartbeat_ms.value_or(0)},
        .must_change = 1}});
  if (!written && written.error().code == ErrorCode::kConflict) co_return changed_meanwhile();
  if (!written) co_return written.error();
  co_return co_await find(std::move(place), std::move(id));
}

Task<Reply<WorkItem>> WorkItems::stop(WorkPlace place, std::string id, Stop how) {
  CO_TRY(const auto item, co_await find(place, id));
  const bool is_at_once = how == Stop::kNow || item.state == "queued";
  CO_TRY_VOID(co_await store_.write(
      {{.sql =
            fmt::format("UPDATE work_items SET state = '{}', {} WHERE id = $2 "
                        "AND state <> 'stopped'",
                        is_at_once ? "stopped" : "stopping",
                        is_at_once ? "stopped = $1, stop_requested = COALESCE(stop_requested, $1)"
                                   : "stop_requested = COALESCE(stop_requested, $1)"),
        .values = {now_ms(), id}}}));
  co_return co_await find(std::move(place), std::move(id));
}

Task<Reply<WorkItem>> WorkItems::replace_metadata(const WorkItem& before, std::string metadata) {
  WorkItem after = before;
  after.metadata = std::move(metadata);
  CO_TRY_VOID(co_await store_.write({{.sql = "UPDATE work_items SET metadata = $1 WHERE id = $2",
                                      .values = {after.metadata, after.id},
                                      .must_change = 1}}));
  co_return after;
}

Task<Reply<WorkStats>> WorkItems::count(WorkPlace place) {
  CO_TRY_VOID(co_await bring_up_to_date(place));
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = "SELECT count(*), COALESCE(sum(CASE WHEN offered > 0 THEN 1 ELSE 0 END), 0), "
                     "min(created) FROM work_items WHERE environment_id = $1 AND project_id = $2 "
                     "AND state = 'queued'",
              .values = {place.environment, place.project}}));
  WorkStats stats;
  CO_TRY(stats.queued, store::integer_of(rows.front(), 0));
  CO_TRY(stats.offered, store::integer_of(rows.front(), 1));
  CO_TRY(stats.oldest_ms, time_of(rows.front(), 2));
  co_return stats;
}

Task<Reply<std::vector<WorkItem>>> WorkItems::list(WorkPlace place, const PageWish& wish) {
  CO_TRY_VOID(co_await bring_up_to_date(place));
  std::string where = "environment_id = $1 AND project_id = $2";
  std::vector<store::Value> values = {place.environment, place.project, wish.limit + 1};
  if (wish.after.size() == 2) {
    CO_TRY(const auto created, number_in(wish, 0));
    where += " AND (created, id) < ($4, $5)";
    values.emplace_back(created);
    values.emplace_back(wish.after[1]);
  }
  CO_TRY(auto items,
         co_await read(where + " ORDER BY created DESC, id DESC LIMIT $3", std::move(values)));
  co_return items;
}

}  // namespace pons::managed
