// The lists of Deployments.

#include <algorithm>

#include <fmt/format.h>

#include "cursor.h"
#include "pons/schedule/deployments.h"
#include "rows.h"

namespace pons::schedule {

namespace {

// A SELECT that grows by what is asked for. What it was asked, without the page, is the question
// that its cursors belong to.
class Search {
 public:
  Search(std::string_view columns, std::string_view table, const std::string& project) {
    sql_ = fmt::format("SELECT {} FROM {} WHERE project_id = ", columns, table);
    add_value(project);
  }

  void also(std::string_view condition) {
    fmt::format_to(std::back_inserter(sql_), " AND {}", condition);
  }
  void also(std::string_view before, store::Value value) {
    fmt::format_to(std::back_inserter(sql_), " AND {} ", before);
    add_value(std::move(value));
  }
  void also(const CreatedRange& range) {
    if (range.from_ms) also("created >=", *range.from_ms);
    if (range.to_ms) also("created <=", *range.to_ms);
  }

  Result<void> continue_at(const std::string& page) {
    question_ = sql_;
    for (const store::Value& value : values_) {
      if (const auto* text = std::get_if<std::string>(&value)) question_ += "\n" + *text;
      if (const auto* number = std::get_if<std::int64_t>(&value))
        fmt::format_to(std::back_inserter(question_), "\n{}", *number);
    }
    if (page.empty()) return {};
    const Cursor cursor = TRY(read_cursor(page, question_));
    fmt::format_to(std::back_inserter(sql_), " AND (created, id) < (CAST(${} AS BIGINT), ${})",
                   values_.size() + 1, values_.size() + 2);
    values_.emplace_back(cursor.created_ms);
    values_.emplace_back(cursor.id);
    return {};
  }

  // One more than is wanted: whether there is another page.
  store::Statement finish(std::int64_t limit) {
    fmt::format_to(std::back_inserter(sql_), " ORDER BY created DESC, id DESC LIMIT ");
    add_value(limit + 1);
    return {.sql = std::move(sql_), .values = std::move(values_)};
  }
  const std::string& question() const { return question_; }

 private:
  void add_value(store::Value value) {
    values_.push_back(std::move(value));
    fmt::format_to(std::back_inserter(sql_), "${}", values_.size());
  }

  std::string sql_;
  std::vector<store::Value> values_;
  std::string question_;
};

Result<void> check_limit(std::int64_t limit) {
  if (limit >= 1 && limit <= kPageMax) return {};
  return make_error(ErrorCode::kInvalid, "list", fmt::format("limit: from 1 to {}", kPageMax));
}

// Drops what was only asked for to see whether there is more.
template <class T>
void end_page(Page<T>& page, std::int64_t limit, const std::string& question) {
  if (static_cast<std::int64_t>(page.items.size()) <= limit) return;
  page.items.pop_back();
  const T& last = page.items.back();
  page.next = write_cursor({.created_ms = last.created_ms, .id = last.id}, question);
}

}  // namespace

Task<Result<Page<Deployment>>> Deployments::list(DeploymentQuery query) {
  CO_TRY_VOID(check_limit(query.limit));
  if (query.status && query.include_archived)
    co_return make_error(ErrorCode::kInvalid, "list deployments",
                         "status and include_archived exclude each other");
  Search search(kDeploymentColumns, "deployments", query.project);
  if (query.agent_id) search.also("agent_id =", *query.agent_id);
  search.also(query.created);
  if (!query.include_archived) search.also("archived IS NULL");
  if (query.status)
    search.also(*query.status == DeploymentQuery::Status::kPaused ? "paused IS NOT NULL"
                                                                  : "paused IS NULL");
  CO_TRY_VOID(search.continue_at(query.page));
  store::Statement statement = search.finish(query.limit);
  auto rows = co_await store_.read(statement);
  // Together they are more than the store gives at once; each alone is not.
  while (!rows && rows.error().code == ErrorCode::kLimit && query.limit > 1) {
    query.limit = std::max<std::int64_t>(1, query.limit / 4);
    statement.values.back() = query.limit + 1;
    rows = co_await store_.read(statement);
  }
  if (!rows) co_return rows.error();
  Page<Deployment> page;
  for (const store::Row& row : *rows) {
    CO_TRY(auto stored, deployment_of(row));
    page.items.push_back(shown(std::move(stored)));
  }
  end_page(page, query.limit, search.question());
  co_return page;
}

Task<Result<Run>> Deployments::find_run(std::string project, std::string id) {
  store::Statement statement{.sql = fmt::format("SELECT {} FROM deployment_runs WHERE id = $1 "
                                                "AND project_id = $2 AND state <> 'starting'",
                                                kRunColumns),
                             .values = {std::move(id), std::move(project)}};
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  if (rows.empty())
    co_return make_error(ErrorCode::kNotFound, "find run", "there is no run of this id");
  co_return run_of(rows.front());
}

Task<Result<Page<Run>>> Deployments::list_runs(RunQuery query) {
  CO_TRY_VOID(check_limit(query.limit));
  Search search(kRunColumns, "deployment_runs", query.project);
  search.also("state <> 'starting'");
  if (query.deployment) search.also("deployment_id =", *query.deployment);
  if (query.has_error)
    search.also(*query.has_error ? "error_type IS NOT NULL" : "error_type IS NULL");
  if (query.trigger)
    search.also(*query.trigger == RunQuery::Trigger::kSchedule ? "scheduled_at IS NOT NULL"
                                                               : "scheduled_at IS NULL");
  search.also(query.created);
  CO_TRY_VOID(search.continue_at(query.page));
  CO_TRY(const auto rows, co_await store_.read(search.finish(query.limit)));
  Page<Run> page;
  for (const store::Row& row : rows) {
    CO_TRY(auto run, run_of(row));
    page.items.push_back(std::move(run));
  }
  end_page(page, query.limit, search.question());
  co_return page;
}

Task<Result<std::vector<Miss>>> Deployments::list_misses(std::string project, std::string id) {
  store::Statement statement{.sql =
                                 "SELECT first_at, last_at, ticks, created "
                                 "FROM deployment_misses WHERE deployment_id = $1 "
                                 "AND project_id = $2 ORDER BY created DESC, id DESC LIMIT 100",
                             .values = {std::move(id), std::move(project)}};
  CO_TRY(const auto rows, co_await store_.read(std::move(statement)));
  std::vector<Miss> misses;
  for (const store::Row& row : rows) {
    Miss miss;
    std::size_t column = 0;
    for (std::int64_t* number : {&miss.first_ms, &miss.last_ms, &miss.ticks, &miss.created_ms}) {
      CO_TRY(*number, store::integer_of(row, column++));
    }
    misses.push_back(miss);
  }
  co_return misses;
}

}  // namespace pons::schedule
