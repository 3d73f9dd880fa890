#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "database.h"
#include "job_queue.h"
#include "pons/linux/loop.h"
#include "reply.h"

namespace pons::store {

// A thread that asks one connection, one question after the other.
class Reader {
 public:
  struct Limits {
    std::size_t queued;
    std::size_t queued_bytes;
    Duration time;  // of one question, once it has begun
  };
  // `damaged` is set when it meets damage.
  Reader(linux::Loop& loop, Database database, Limits limits, std::atomic<bool>& damaged);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  using Rows = std::vector<Row>;
  using Answer = Reply<Rows>;
  using Question = std::move_only_function<Result<Rows>(Database&)>;
  Result<std::shared_ptr<Answer>> push(Question question, std::size_t bytes);

 private:
  struct Job {
    Question question;
    std::shared_ptr<Answer> answer;
  };
  void work();

  linux::Loop& loop_;
  Database database_;
  const Limits limits_;
  std::atomic<bool>& damaged_;
  JobQueue<Job> queue_;
  std::thread thread_;
};

}  // namespace pons::store
