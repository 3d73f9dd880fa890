#include "writer.h"

#include <fmt/format.h>

#include "pons/base/log.h"

namespace pons::store {

Writer::Writer(linux::Loop& loop, Database database, const StoreLimits& limits,
               std::atomic<bool>& damaged)
    : loop_(loop),
      database_(std::move(database)),
      limits_{.rows = limits.rows, .bytes = limits.row_bytes},
      damaged_(damaged),
      queue_(limits.queued, limits.queued_bytes),
      thread_([this] { work(); }) {}

Writer::~Writer() {
  queue_.close();
  thread_.join();
}

Result<std::shared_ptr<Writer::Answer>> Writer::push(Transaction transaction, std::size_t bytes) {
  auto answer = std::make_shared<Answer>(loop_);
  TRY_VOID(queue_.push({std::move(transaction), answer}, bytes));
  return answer;
}

void Writer::work() {
  for (;;) {
    std::vector<Job> jobs = queue_.take_all();
    if (jobs.empty()) return;
    Results results = run_all(jobs);
    loop_.post([jobs = std::move(jobs), results = std::move(results)]() mutable {
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].answer->value = std::move(results[i]);
        jobs[i].answer->arrived.set();
      }
    });
  }
}

Writer::Results Writer::run_all(std::span<const Job> jobs) {
  notice_damage();
  if (refusal_) return Results(jobs.size(), *refusal_);
  auto results = run_together(jobs);
  notice_damage();
  if (results) return std::move(*results);
  if (jobs.size() == 1) return {results.error()};
  // One of them may be what does not fit: the others must not fail for it.
  Results alone;
  for (const Job& job : jobs) alone.push_back(std::move(run_all({&job, 1}).front()));
  return alone;
}

Result<Writer::Results> Writer::run_together(std::span<const Job> jobs) {
  // Nobody gets further than this, alone or not.
  if (auto begun = database_.execute("BEGIN IMMEDIATE"); !begun)
    return Results(jobs.size(), begun.error());
  const Rollback rollback(database_);
  Results results;
  for (const Job& job : jobs) {
    TRY_VOID(database_.execute("SAVEPOINT one"));
    results.push_back(run_statements(job.transaction));
    // Some failures end the transaction around it, too.
    if (!database_.in_transaction()) return results.back().error();
    if (!results.back()) TRY_VOID(database_.execute("ROLLBACK TO one"));
    TRY_VOID(database_.execute("RELEASE one"));
  }
  TRY_VOID(database_.execute("COMMIT"));
  return results;
}

Result<Writer::Outcomes> Writer::run_statements(const Transaction& transaction) {
  Outcomes outcomes;
  for (const Statement& statement : transaction) {
    outcomes.push_back(TRY(database_.run(statement, limits_)));
    if (statement.must_change && *statement.must_change != outcomes.back().changed)
      return make_error(ErrorCode::kConflict, "write to store",
                        fmt::format("{} rows were to change, and {} would have",
                                    *statement.must_change, outcomes.back().changed));
  }
  return outcomes;
}

void Writer::notice_damage() {
  if (database_.is_damaged()) damaged_ = true;
  if (!damaged_ || refusal_) return;
  refusal_ = make_error(
      ErrorCode::kIo, "write to store",
      fmt::format("{} is damaged or its disk fails; nothing is written any more. Stop Pons, look "
                  "after the disk, and run `pons restore BACKUP`",
                  database_.shown()));
  LOG_ERROR("the store takes no more writes", {"error", *refusal_});
}

}  // namespace pons::store
