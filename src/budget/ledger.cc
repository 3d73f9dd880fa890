#include "ledger.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::budget {

namespace {

// So that a part, with its sums for every node of a path, stays within one transaction.
constexpr std::size_t kPartEntries = 100;
// Files as old as that are gone, and so may be what is known of them.
constexpr std::int64_t kFilesRemembered = 1'000;
constexpr std::int64_t kPageRows = 5'000;
constexpr std::int64_t kPrunedAtOnce = 2'000;
constexpr std::int64_t kDayMs = 86'400'000;

constexpr std::array<std::string_view, kOutcomes> kOutcomeNames = {"done",    "failed", "cancelled",
                                                                   "expired", "lost",   "sandbox"};

constexpr std::string_view kSums =
    "input, cache_read, cache_write, cache_write_hour, output, reasoning, sandbox_seconds, "
    "requests, cost_nano";
constexpr std::string_view kAmountSums =
    "CAST(SUM(cost_nano) AS BIGINT), "
    "CAST(SUM(input + cache_read + cache_write + cache_write_hour + output) AS BIGINT), "
    "CAST(SUM(requests) AS BIGINT), CAST(SUM(sandbox_seconds) AS BIGINT)";

constexpr std::string_view kUseSums =
    "CAST(COALESCE(SUM(input), 0) AS BIGINT), CAST(COALESCE(SUM(cache_read), 0) AS BIGINT), "
    "CAST(COALESCE(SUM(cache_write), 0) AS BIGINT), "
    "CAST(COALESCE(SUM(cache_write_hour), 0) AS BIGINT), "
    "CAST(COALESCE(SUM(output), 0) AS BIGINT), CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT), "
    "COUNT(*)";

// The columns of kSums.
std::vector<store::Value> sums_of(const models::Usage& usage, std::int64_t sandbox_seconds,
                                  std::int64_t requests, std::int64_t cost_nano) {
  return {usage.input,       usage.cache_read,
          usage.cache_write, usage.cache_write_hour,
          usage.output,      usage.reasoning.value_or(0),
          sandbox_seconds,   requests,
          cost_nano};
}

std::vector<store::Value> joined(std::vector<store::Value> first, std::vector<store::Value> more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

void add(models::Usage& sum, const models::Usage& usage) {
  sum.input += usage.input;
  sum.cache_read += usage.cache_read;
  sum.cache_write += usage.cache_write;
  sum.cache_write_hour += usage.cache_write_hour;
  sum.output += usage.output;
  sum.reasoning = sum.reasoning.value_or(0) + usage.reasoning.value_or(0);
}

store::Statement insert_call(const Entry& entry) {
  const Reserved& call = entry.reserved;
  const Settled& end = entry.settled;
  const std::size_t slash = call.path.rfind('/');
  const std::string node = slash == std::string::npos ? call.path : call.path.substr(slash + 1);
  static const std::string kSql = fmt::format(
      "INSERT INTO model_calls (id, project_id, node_id, path, model, provider, time, outcome, {}) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
      kSums);
  return {.sql = kSql,
          .values = joined({call.id, call.project_id, node, call.path, call.model, call.provider,
                            end.time_ms, std::string(name_of(end.outcome))},
                           sums_of(end.usage, end.sandbox_seconds, end.requests, end.cost_nano))};
}

store::Statement add_usage(const std::string& project_id, const UsageRow& row) {
  std::vector<std::string> additions;
  for (const std::string_view column : split(kSums, ','))
    additions.push_back(fmt::format("{0} = model_usage.{0} + excluded.{0}", trim(column)));
  return {.sql = fmt::format("INSERT INTO model_usage (node_id, model, day, project_id, {}) VALUES "
                             "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) "
                             "ON CONFLICT (node_id, model, day) DO UPDATE SET {}",
                             kSums, fmt::join(additions, ", ")),
          .values = joined({row.node_id, row.model, row.day, project_id},
                           sums_of(row.usage, row.sandbox_seconds, row.requests, row.cost_nano))};
}

void add_usage_of(std::span<const Entry> entries, store::Transaction& to) {
  struct Sum {
    std::string project_id;
    UsageRow row;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t>, Sum> sums;
  for (const auto& [call, end] : entries)
    for (const std::string_view node : split(call.path, '/')) {
      const std::int64_t day = end.time_ms / kDayMs;
      Sum& sum = sums[{std::string(node), call.model, day}];
      sum.project_id = call.project_id;
      sum.row.node_id = node;
      sum.row.model = call.model;
      sum.row.day = day;
      add(sum.row.usage, end.usage);
      sum.row.sandbox_seconds += end.sandbox_seconds;
      sum.row.requests += end.requests;
      sum.row.cost_nano += end.cost_nano;
    }
  for (const auto& [key, sum] : sums) to.push_back(add_usage(sum.project_id, sum.row));
}

Result<Amounts> amounts_from(const store::Row& row, std::size_t column) {
  Amounts amounts;
  for (std::int64_t& amount : amounts.of) amount = TRY(store::integer_of(row, column++));
  return amounts;
}

Result<UsageRow> usage_row_of(const store::Row& row) {
  return UsageRow{.node_id = TRY(store::text_of(row, 0)),
                  .agent = TRY(store::text_of(row, 12)),
                  .model = TRY(store::text_of(row, 1)),
                  .day = TRY(store::integer_of(row, 2)),
                  .usage = {.input = TRY(store::integer_of(row, 3)),
                            .cache_read = TRY(store::integer_of(row, 4)),
                            .cache_write = TRY(store::integer_of(row, 5)),
                            .cache_write_hour = TRY(store::integer_of(row, 6)),
                            .output = TRY(store::integer_of(row, 7)),
                            .reasoning = TRY(store::integer_of(row, 8))},
                  .sandbox_seconds = TRY(store::integer_of(row, 9)),
                  .requests = TRY(store::integer_of(row, 10)),
                  .cost_nano = TRY(store::integer_of(row, 11))};
}

// The rows of usage that a query is about: $4 is its node, $6 the name of an agent.
constexpr std::string_view kOfNodes = "($4 = '' OR node_id = $4) AND $6 = ''";
constexpr std::string_view kOfAgents =
    "k.kind = 'agent' AND ($6 = '' OR k.name = $6) AND ($4 = '' OR node_id IN ("
    "WITH RECURSIVE below (id) AS (SELECT id FROM model_keys WHERE id = $4 UNION "
    "SELECT c.id FROM model_keys c JOIN below b ON c.parent_id = b.id) SELECT id FROM below))";

}  // namespace

std::string_view name_of(Outcome outcome) {
  return kOutcomeNames[static_cast<std::size_t>(outcome)];
}

Task<Result<void>> Ledger::store_file(std::int64_t number, std::span<const Entry> entries,
                                      std::int64_t now_ms) {
  for (std::size_t begin = 0; begin < entries.size(); begin += kPartEntries)
    CO_TRY_VOID(co_await store_part(
        number, static_cast<std::int64_t>(begin / kPartEntries),
        entries.subspan(begin, std::min(kPartEntries, entries.size() - begin)), now_ms));
  co_return {};
}

Task<Result<void>> Ledger::store_part(std::int64_t number, std::int64_t part,
                                      std::span<const Entry> entries, std::int64_t now_ms) {
  store::Transaction transaction;
  transaction.push_back(
      {.sql = "INSERT INTO model_journals (number, part, stored) VALUES ($1, $2, $3)",
       .values = {number, part, now_ms}});
  transaction.push_back({.sql = "DELETE FROM model_journals WHERE number < $1",
                         .values = {number - kFilesRemembered}});
  for (const Entry& entry : entries) transaction.push_back(insert_call(entry));
  add_usage_of(entries, transaction);
  const auto written = co_await store_.write(std::move(transaction));
  if (written) co_return {};
  if (written.error().code != ErrorCode::kConflict) co_return written.error();
  CO_TRY(
      const auto stored,
      co_await store_.read({.sql = "SELECT 1 FROM model_journals WHERE number = $1 AND part = $2",
                            .values = {number, part}}));
  if (!stored.empty()) co_return {};
  CO_TRY(const std::vector<Entry> missing, co_await not_stored(entries));
  if (missing.size() == entries.size()) co_return written.error();
  LOG_WARN("calls of a journal are in the ledger already",
           {"calls", entries.size() - missing.size()});
  co_return co_await store_part(number, part, missing, now_ms);
}

Task<Result<std::vector<Entry>>> Ledger::not_stored(std::span<const Entry> entries) {
  std::vector<Entry> missing;
  for (const Entry& entry : entries) {
    CO_TRY(const bool is_there, co_await has_call(entry.reserved.id));
    if (!is_there) missing.push_back(entry);
  }
  co_return missing;
}

Task<Result<bool>> Ledger::has_call(std::string id) {
  CO_TRY(const auto rows, co_await store_.read({.sql = "SELECT 1 FROM model_calls WHERE id = $1",
                                                .values = {std::move(id)}}));
  co_return !rows.empty();
}

// In whatever order a database has letters, what goes on with small ones and digits stands between
// these two.
Task<Result<QuestionUse>> Ledger::use_of(std::string prefix) {
  constexpr std::size_t kBehind = 32;
  const auto length = static_cast<std::int64_t>(prefix.size());
  const std::string last = prefix + std::string(kBehind, 'z');
  CO_TRY(const auto rows,
         co_await store_.read(
             {.sql = fmt::format("SELECT {} FROM model_calls WHERE id >= $1 AND id <= $2 "
                                 "AND substr(id, 1, CAST($3 AS INTEGER)) = $1",
                                 kUseSums),
              .values = {std::move(prefix), last, length}}));
  const store::Row& row = rows.front();
  QuestionUse use;
  std::size_t column = 0;
  for (std::int64_t* number :
       {&use.usage.input, &use.usage.cache_read, &use.usage.cache_write,
        &use.usage.cache_write_hour, &use.usage.output, &use.cost_nano, &use.calls}) {
    CO_TRY(*number, store::integer_of(row, column++));
  }
  co_return use;
}

Task<Result<std::int64_t>> Ledger::last_file() {
  CO_TRY(const auto rows,
         co_await store_.read({.sql = "SELECT MAX(number) FROM model_journals", .values = {}}));
  CO_TRY(const auto last, store::optional_integer_of(rows.front(), 0));
  co_return last.value_or(0);
}

Task<Result<void>> Ledger::restore(Counters& counters, std::int64_t now_ms) {
  for (const Window window : {Window::kMinute, Window::kHour})
    CO_TRY_VOID(co_await restore_from_calls(counters, window, now_ms));
  for (const Window window : {Window::kDay, Window::kWeek, Window::kMonth, Window::kTotal})
    CO_TRY_VOID(co_await restore_from_days(counters, window, now_ms));
  co_return {};
}

Task<Result<void>> Ledger::restore_from_days(Counters& counters, Window window,
                                             std::int64_t now_ms) {
  for (std::string last;;) {
    CO_TRY(const auto rows,
           co_await store_.read(
               {.sql = fmt::format("SELECT node_id, {} FROM model_usage "
                                   "JOIN model_keys ON model_keys.id = node_id "
                                   "WHERE revoked IS NULL AND day >= $1 AND node_id > $2 "
                                   "GROUP BY node_id ORDER BY node_id LIMIT $3",
                                   kAmountSums),
                .values = {window_start(window, now_ms) / kDayMs, last, kPageRows}}));
    for (const store::Row& row : rows) {
      CO_TRY(last, store::text_of(row, 0));
      CO_TRY(const Amounts used, amounts_from(row, 1));
      counters.restore(last, window, used, now_ms);
    }
    if (std::ssize(rows) < kPageRows) co_return {};
  }
}

Task<Result<void>> Ledger::restore_from_calls(Counters& counters, Window window,
                                              std::int64_t now_ms) {
  for (std::string last;;) {
    CO_TRY(const auto rows,
           co_await store_.read(
               {.sql = fmt::format("SELECT path, {} FROM model_calls WHERE time >= $1 "
                                   "AND path > $2 GROUP BY path ORDER BY path LIMIT $3",
                                   kAmountSums),
                .values = {window_start(window, now_ms), last, kPageRows}}));
    for (const store::Row& row : rows) {
      CO_TRY(last, store::text_of(row, 0));
      CO_TRY(const Amounts used, amounts_from(row, 1));
      for (const std::string_view node : split(last, '/'))
        counters.restore(node, window, used, now_ms);
    }
    if (std::ssize(rows) < kPageRows) co_return {};
  }
}

Task<Result<std::vector<UsageRow>>> Ledger::usage(UsageQuery query) {
  CO_TRY(
      const auto rows,
      co_await store_.read(
          {.sql = fmt::format("SELECT node_id, model, day, {}, "
                              "CASE WHEN k.kind = 'agent' THEN k.name ELSE '' END "
                              "FROM model_usage LEFT JOIN model_keys k ON k.id = node_id "
                              "WHERE model_usage.project_id = $1 AND day >= $2 AND day <= $3 "
                              "AND ($5 = '' OR model = $5) AND {} "
                              "ORDER BY day, node_id, model LIMIT $7 OFFSET $8",
                              kSums, query.of == UsageQuery::Of::kAgents ? kOfAgents : kOfNodes),
           .values = {query.project_id, query.first_day, query.last_day, query.node_id, query.model,
                      query.agent, std::clamp<std::int64_t>(query.rows_max, 1, kPageRows),
                      std::max<std::int64_t>(query.skip, 0)}}));
  std::vector<UsageRow> usage;
  for (const store::Row& row : rows) {
    CO_TRY(UsageRow one, usage_row_of(row));
    usage.push_back(std::move(one));
  }
  co_return usage;
}

Task<Result<void>> Ledger::prune(std::int64_t before_ms) {
  CO_TRY_VOID(co_await store_.write(
      {{.sql = "DELETE FROM model_calls WHERE id IN "
               "(SELECT id FROM model_calls WHERE time < $1 ORDER BY time LIMIT $2)",
        .values = {before_ms, kPrunedAtOnce}}}));
  co_return {};
}

}  // namespace pons::budget
