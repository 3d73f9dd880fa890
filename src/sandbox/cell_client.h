#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "cell_reply.h"
#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"

namespace pons::sandbox {

// One connection to one cell. Any number of calls may wait at once. A call that is cancelled or
// late leaves nothing behind: its answer is dropped when it comes.
class CellClient {
 public:
  struct Answer {
    cell::Status status = cell::Status::kDone;
    cell::Step step = cell::Step::kNone;
    int os_error = 0;
    std::string payload;
  };
  // How the connection ended, if it did.
  enum class Health : std::uint8_t { kGood, kLost, kGarbage };

  static Result<std::unique_ptr<CellClient>> create(linux::Loop& loop, linux::UniqueFd socket);
  ~CellClient();

  // kTimeout at the deadline; kUnavailable when the connection is lost, with health() telling why.
  Task<Result<Answer>> call(std::string request, TimePoint deadline);
  // Waits for no answer, and leaves only when the loop has nothing else to do this round: whoever
  // caused it has their answer first.
  Result<void> tell(std::string request);
  // True when the cell answered in time.
  Task<bool> ping(TimePoint deadline);
  Health health() const { return health_; }
  // The cell answered in due form, and still what it said makes no sense.
  void condemn() { end(Health::kGarbage); }

 private:
  struct Pending {
    explicit Pending(linux::Loop& loop) : answered(loop) {}
    linux::Event answered;
    std::unique_ptr<Answer> answer;
  };
  CellClient(linux::Loop& loop, linux::UniqueFd socket, linux::Watch watch);
  Task<> read_replies();
  Task<> send_queued();
  Result<void> send(std::string request);
  void take_reply(std::string_view bytes);
  void end(Health health);

  linux::Loop& loop_;
  linux::UniqueFd socket_;
  linux::Watch watch_;
  Health health_ = Health::kGood;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Pending*> pending_;
  std::deque<std::string> queue_;  // requests the socket had no room for
  std::size_t queued_bytes_ = 0;
  linux::Event queue_filled_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

}  // namespace pons::sandbox
