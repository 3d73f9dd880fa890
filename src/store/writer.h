#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "database.h"
#include "job_queue.h"
#include "pons/linux/loop.h"
#include "pons/store/sqlite_store.h"
#include "reply.h"

namespace pons::store {

// The one thread that changes the file.
class Writer {
 public:
  // `damaged`: set by whoever meets damage; nothing is written from then on.
  Writer(linux::Loop& loop, Database database, const StoreLimits& limits,
         std::atomic<bool>& damaged);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  using Outcomes = std::vector<Outcome>;
  using Answer = Reply<Outcomes>;
  Result<std::shared_ptr<Answer>> push(Transaction transaction, std::size_t bytes);

 private:
  struct Job {
    Transaction transaction;
    std::shared_ptr<Answer> answer;
  };
  using Results = std::vector<Result<Outcomes>>;

  void work();
  Results run_all(std::span<const Job> jobs);
  // An error when nothing of it was stored, although some of it might be if it stood alone.
  Result<Results> run_together(std::span<const Job> jobs);
  Result<Outcomes> run_statements(const Transaction& transaction);
  void notice_damage();

  linux::Loop& loop_;
  Database database_;
  const RowLimits limits_;
  std::atomic<bool>& damaged_;
  std::optional<Error> refusal_;  // once damage was noticed
  JobQueue<Job> queue_;
  std::thread thread_;
};

}  // namespace pons::store
