#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"
#include "pons/linux/unix_socket.h"

namespace pons::roles {

// How one role reaches another. The supervisor gives the caller and the callee the two ends of a
// message channel; to open a connection the caller makes a pair of sockets, keeps one end and sends
// the other through. So nobody needs the right to create or connect sockets, the callee knows who
// is calling by the channel it came through, and a callee that is being restarted finds the waiting
// connections when it is back.

// As linux::receive_message, for a peer that may lie: an empty message is kInvalid. The kernel
// reports it like the end of the stream, and nobody may look gone who is still there.
Result<std::optional<linux::Message>> receive_from_role(int socket, std::size_t bytes_max,
                                                        std::size_t descriptors_max);

// Lets the rest of the loop have its turn after every so many messages, so that a peer who sends
// without pause cannot keep it for itself.
class FairTurns {
 public:
  explicit FairTurns(linux::Loop& loop) : loop_(loop) {}
  Task<> after_message();

 private:
  linux::Loop& loop_;
  int handled_ = 0;
};

// Caller's side: a connected stream socket to whoever serves the channel, now or once it is back.
// Never blocks; kUnavailable when too many connections are waiting already.
// Copies of `along` travel with the connection.
Result<linux::UniqueFd> dial(int channel, std::span<const int> along = {});
inline constexpr std::size_t kAlongMax = 2;

// A connection as the callee gets it. What came along is whatever the caller chose to send.
struct Dialled {
  linux::UniqueFd socket;
  std::vector<linux::UniqueFd> along;
};

// Callee's side: hands every connection to `accept`, until cancelled.
Task<> accept_dialled(linux::Loop& loop, int channel, std::function<void(Dialled)> accept);

}  // namespace pons::roles
