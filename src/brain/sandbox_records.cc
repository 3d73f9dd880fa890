#include "sandbox_records.h"

#include <algorithm>

#include <fmt/format.h>

namespace pons::brain {

namespace {

store::Statement statement_of(const SandboxRecord& record, const std::string& node) {
  if (record.what == SandboxRecord::What::kEnd)
    // One whose making nobody told of is no contradiction: who made it may have died meanwhile.
    return {.sql =
                "UPDATE sandboxes SET ended = $1, end_reason = $2 "
                "WHERE id = $3 AND project_id = $4 AND ended IS NULL",
            .values = {record.at_ms, record.reason, record.id, record.project_id}};
  // The project's limit is looked at in the same statement. One that is on record already is not
  // one more.
  return {.sql =
              "INSERT INTO sandboxes (id, project_id, template, metadata, created, node, agent) "
              "SELECT $1, $2, $3, $4, $5, $6, COALESCE((SELECT agent FROM sessions "
              "WHERE id = $7 AND project_id = $2), '') "
              "WHERE (SELECT sandboxes_max FROM projects WHERE id = $2) IS NULL "
              "OR (SELECT count(*) FROM sandboxes WHERE project_id = $2 AND ended IS NULL "
              "AND id <> $1) < (SELECT sandboxes_max FROM projects WHERE id = $2) "
              "ON CONFLICT (id) DO UPDATE SET node = excluded.node "
              "WHERE sandboxes.project_id = excluded.project_id",
          .values = {record.id, record.project_id, record.sandbox_template, record.metadata,
                     record.at_ms, node, record.session},
          .must_change = 1};
}

}  // namespace

Task<Result<std::vector<RefusedRecord>>> SandboxRecords::keep(std::vector<SandboxRecord> records) {
  store::Transaction all;
  for (const SandboxRecord& record : records) all.push_back(statement_of(record, node_));
  std::vector<RefusedRecord> refused;
  auto written = co_await store_.write(std::move(all));
  if (written) co_return refused;
  if (written.error().code != ErrorCode::kConflict) co_return written.error();
  for (std::size_t i = 0; i < records.size(); ++i) {
    auto alone = co_await store_.write({statement_of(records[i], node_)});
    if (alone) continue;
    if (alone.error().code != ErrorCode::kConflict) co_return alone.error();
    refused.push_back({.index = i, .error = co_await why_refused(records[i].project_id)});
  }
  co_return refused;
}

Task<Error> SandboxRecords::why_refused(std::string project) {
  const auto rows =
      co_await store_.read({.sql = "SELECT sandboxes_max FROM projects WHERE id = $1 AND "
                                   "sandboxes_max <= (SELECT count(*) FROM sandboxes "
                                   "WHERE project_id = $1 AND ended IS NULL)",
                            .values = {std::move(project)}});
  if (!rows) co_return rows.error();
  if (rows->empty())
    co_return make_error(ErrorCode::kConflict, "keep sandbox record",
                         "its project does not exist, or the sandbox is another project's");
  co_return make_error(ErrorCode::kLimit, "keep sandbox record",
                       fmt::format("this project has {} sandboxes, which is the most it may have; "
                                   "end some, or ask the operator for more",
                                   store::integer_of(rows->front(), 0).value_or(0)));
}

Task<Result<std::vector<OpenSandbox>>> SandboxRecords::list_open(std::string after) {
  constexpr std::int64_t kRowsMax = 1000;
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT id, project_id FROM sandboxes "
                                      "WHERE ended IS NULL AND id > $1 "
                                      "AND (node = $3 OR node = '') ORDER BY id LIMIT $2",
                               .values = {std::move(after), kRowsMax, node_}}));
  std::vector<OpenSandbox> open;
  for (const store::Row& row : rows) {
    CO_TRY(auto id, store::text_of(row, 0));
    CO_TRY(auto project, store::text_of(row, 1));
    open.push_back({.id = std::move(id), .project_id = std::move(project)});
  }
  co_return open;
}

Task<Result<void>> SandboxRecords::end(std::string id, std::string reason, std::int64_t at_ms) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "UPDATE sandboxes SET ended = $1, end_reason = $2 WHERE id = $3 AND ended IS NULL",
        .values = {at_ms, std::move(reason), std::move(id)}}}));
  co_return {};
}

Task<Result<std::vector<UnpaidSandbox>>> SandboxRecords::list_unpaid(std::int64_t rows_max) {
  constexpr std::int64_t kMsPerSecond = 1'000;
  constexpr std::int64_t kSecondsMax = 31LL * 86'400;  // more than the gateway takes at once
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT id, project_id, agent, created, ended FROM sandboxes "
                                      "WHERE ended IS NOT NULL AND charged IS NULL "
                                      "AND (node = $2 OR node = '') ORDER BY ended LIMIT $1",
                               .values = {rows_max, node_}}));
  std::vector<UnpaidSandbox> unpaid;
  for (const store::Row& row : rows) {
    CO_TRY(auto id, store::text_of(row, 0));
    CO_TRY(auto project, store::text_of(row, 1));
    CO_TRY(auto agent, store::text_of(row, 2));
    CO_TRY(const auto created, store::integer_of(row, 3));
    CO_TRY(const auto ended, store::integer_of(row, 4));
    const std::int64_t seconds = (ended - created + kMsPerSecond - 1) / kMsPerSecond;
    unpaid.push_back({.id = std::move(id),
                      .project_id = std::move(project),
                      .agent = std::move(agent),
                      .seconds = std::clamp<std::int64_t>(seconds, 1, kSecondsMax)});
  }
  co_return unpaid;
}

Task<Result<std::vector<UnpaidTime>>> SandboxRecords::sum_unpaid(std::int64_t now_ms) {
  constexpr std::int64_t kRowsMax = 5'000;  // as many as the gateway takes
  constexpr std::int64_t kMsPerSecond = 1'000;
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = "SELECT project_id, agent, CAST(SUM(ms) AS BIGINT), COUNT(*) FROM ("
                     "SELECT project_id, agent, CAST($1 AS BIGINT) - created AS ms FROM sandboxes "
                     "WHERE ended IS NULL AND (node = $2 OR node = '') UNION ALL "
                     "SELECT project_id, agent, ended - created AS ms FROM sandboxes "
                     "WHERE ended IS NOT NULL AND charged IS NULL AND (node = $2 OR node = '')"
                     ") AS unpaid GROUP BY project_id, agent ORDER BY 3 DESC LIMIT $3",
              .values = {now_ms, node_, kRowsMax}}));
  std::vector<UnpaidTime> all;
  for (const store::Row& row : rows) {
    CO_TRY(auto project, store::text_of(row, 0));
    CO_TRY(auto agent, store::text_of(row, 1));
    CO_TRY(const auto ms, store::integer_of(row, 2));
    CO_TRY(const auto count, store::integer_of(row, 3));
    // Each is charged a second at least.
    all.push_back({.project_id = std::move(project),
                   .agent = std::move(agent),
                   .seconds = std::max((ms + kMsPerSecond - 1) / kMsPerSecond, count)});
  }
  co_return all;
}

Task<Result<bool>> SandboxRecords::is_open(std::string id) {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT 1 FROM sandboxes WHERE id = $1 AND ended IS NULL",
                               .values = {std::move(id)}}));
  co_return !rows.empty();
}

Task<Result<std::string>> SandboxRecords::agent_of(std::string project, std::string session) {
  CO_TRY(
      const auto rows,
      co_await store_.read({.sql = "SELECT agent FROM sessions WHERE id = $1 AND project_id = $2",
                            .values = {std::move(session), std::move(project)}}));
  if (rows.empty()) co_return std::string();
  co_return store::text_of(rows.front(), 0);
}

Task<Result<void>> SandboxRecords::mark_paid(std::vector<std::string> ids, std::int64_t at_ms) {
  store::Transaction all;
  for (std::string& id : ids)
    all.push_back({.sql = "UPDATE sandboxes SET charged = $1 WHERE id = $2",
                   .values = {at_ms, std::move(id)}});
  CO_TRY_VOID(co_await store_.write(std::move(all)));
  co_return {};
}

}  // namespace pons::brain
