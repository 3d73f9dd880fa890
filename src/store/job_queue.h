#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "pons/base/result.h"

namespace pons::store {

// What a loop hands to a thread of its own: bounded, in order.
template <class Job>
class JobQueue {
 public:
  JobQueue(std::size_t jobs_max, std::size_t bytes_max)
      : jobs_max_(jobs_max), bytes_max_(bytes_max) {}

  Result<void> push(Job job, std::size_t bytes) {
    {
      const std::scoped_lock lock(mutex_);
      if (jobs_.size() >= jobs_max_ || bytes_ + bytes > bytes_max_)
        return make_error(ErrorCode::kUnavailable, "ask store",
                          "too much waits for the disk already; try again later");
      jobs_.push_back(std::move(job));
      bytes_ += bytes;
    }
    arrived_.notify_one();
    return {};
  }

  // Waits for the next ones and takes all. Empty when the queue was closed and nothing is left.
  std::vector<Job> take_all() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
    bytes_ = 0;
    return std::exchange(jobs_, {});
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    arrived_.notify_one();
  }

 private:
  const std::size_t jobs_max_;
  const std::size_t bytes_max_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Job> jobs_;  // guarded by mutex_, as all below
  std::size_t bytes_ = 0;
  bool closed_ = false;
};

}  // namespace pons::store
