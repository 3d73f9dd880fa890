#pragma once

#include <utility>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"

namespace pons::sandbox {

// One coroutine at a time. The lock must outlive every guard of it.
class Lock {
 public:
  class Guard {
   public:
    explicit Guard(Lock& lock) : lock_(&lock) {}
    Guard(Guard&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (lock_ == nullptr) return;
      lock_->held_ = false;
      lock_->free_.set();
    }

   private:
    Lock* lock_;
  };

  explicit Lock(linux::Loop& loop) : free_(loop) {}

  // kTimeout, with `what` as the step, when others hold it until the deadline.
  Task<Result<Guard>> take(const char* what, TimePoint deadline) {
    while (held_) {
      free_.reset();
      if (co_await free_.wait(deadline) == linux::Wait::kTimeout && held_)
        co_return make_error(ErrorCode::kTimeout, what, "another call on this sandbox takes long");
    }
    held_ = true;
    co_return Guard(*this);
  }
  bool held() const { return held_; }

 private:
  bool held_ = false;
  linux::Event free_;
};

}  // namespace pons::sandbox
