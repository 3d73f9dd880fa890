#pragma once

#include <map>
#include <optional>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/spawner/protocol.h"

namespace pons::spawner {

struct SpawnerReply {
  Reply reply;
  std::vector<linux::UniqueFd> descriptors;  // at most kReplyDescriptorsMax
};
inline constexpr std::size_t kReplyDescriptorsMax = 2;

// The warden's side of the channel. Any number of calls may wait at once. A spawner that restarts
// meanwhile fails those whose requests it had taken (kUnavailable: done or not, nobody knows), and
// no others.
class Client {
 public:
  Client(linux::Loop& loop, int channel, Duration reply_time = std::chrono::seconds(5));

  Task<Result<Reply>> call(RequestKind kind, std::uint64_t argument = 0);
  // Sends the request under a number of its own. What the spawner reports as failed is an error
  // that names the step and carries the kernel's word; a sandbox it does not know is kNotFound.
  // While the channel is full the call waits for room, within its deadline.
  Task<Result<SpawnerReply>> call(Request request, Duration reply_time);

  // Set when a new process of the spawner has begun; who waits for it resets it.
  linux::Event& begun() { return begun_; }

 private:
  struct Pending {
    explicit Pending(linux::Loop& loop) : answered(loop) {}
    linux::Event answered;  // without a reply: nobody will
    std::optional<SpawnerReply> reply;
  };
  Task<Result<SpawnerReply>> exchange(Request request, TimePoint deadline);
  Task<> read_replies();
  void take_notice(const Reply& notice);
  Task<> say_something();

  linux::Loop& loop_;
  int channel_;
  Duration reply_time_;
  std::uint64_t first_id_;
  std::uint64_t next_id_;
  linux::Event begun_;
  std::map<std::uint64_t, Pending*> pending_;
  linux::TaskGroup reader_;
};

}  // namespace pons::spawner
