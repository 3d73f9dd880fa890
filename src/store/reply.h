#pragma once

#include <memory>
#include <utility>

#include "pons/linux/loop.h"

namespace pons::store {

// Where a thread leaves its answer, by Loop::post, for a coroutine of the loop; shared, because
// either of the two may be gone first.
template <class T>
struct Reply {
  explicit Reply(linux::Loop& loop) : arrived(loop) {}

  static Task<Result<T>> wait(std::shared_ptr<Reply> reply, TimePoint deadline) {
    if (co_await reply->arrived.wait(deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "ask store",
                           "the disk took too long; what was asked for may still happen");
    co_return std::move(reply->value);
  }

  Result<T> value;
  linux::Event arrived;
};

}  // namespace pons::store
