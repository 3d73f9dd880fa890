#include "reader.h"

namespace pons::store {

Reader::Reader(linux::Loop& loop, Database database, Limits limits, std::atomic<bool>& damaged)
    : loop_(loop),
      database_(std::move(database)),
      limits_(limits),
      damaged_(damaged),
      queue_(limits.queued, limits.queued_bytes),
      thread_([this] { work(); }) {}

Reader::~Reader() {
  queue_.close();
  database_.interrupt();
  thread_.join();
}

Result<std::shared_ptr<Reader::Answer>> Reader::push(Question question, std::size_t bytes) {
  auto answer = std::make_shared<Answer>(loop_);
  TRY_VOID(queue_.push({std::move(question), answer}, bytes));
  return answer;
}

void Reader::work() {
  for (;;) {
    std::vector<Job> jobs = queue_.take_all();
    if (jobs.empty()) return;
    for (Job& job : jobs) {
      database_.set_deadline(std::chrono::steady_clock::now() + limits_.time);
      auto rows = job.question(database_);
      if (database_.is_damaged()) damaged_ = true;
      loop_.post([answer = std::move(job.answer), rows = std::move(rows)]() mutable {
        answer->value = std::move(rows);
        answer->arrived.set();
      });
    }
  }
}

}  // namespace pons::store
