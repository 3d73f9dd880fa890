#pragma once

#include <stddef.h>

#include "jobs.h"
#include "launch.h"
#include "pons/cell/protocol.h"

namespace pons::cell {

class WaitingShell;

// An answer that is still to be sent. It is put together when it is sent, so that what waits costs
// the same whatever its size.
struct Answer {
  enum class Kind : uint32_t { kPlain, kPing, kRead, kWrite, kList };

  uint64_t id;
  Kind kind;
  Status status;
  Step step;
  int os_error;
  uint32_t job;
  uint32_t generation;
  uint64_t deadline_ms;
  Read read;
};

// The wardens that talk to this cell. All zero is none.
class Connections {
 public:
  static constexpr uint32_t kConnectionsMax = 8;
  static constexpr uint32_t kAnswersMax = 512;

  void set_up(Poller* poller, Jobs* jobs, WaitingShell* shell);
  void accept_from(int listener);

  // One message into `to`; its size, or 0 when there is none. A size over kMessageBytesMax is the
  // size of what did not fit.
  size_t receive(uint32_t index, char* to);
  void on_writable(uint32_t index);
  void close_at(uint32_t index);

  // Sends it, now or when it can be.
  void answer(uint32_t index, const Answer& answer);
  // Sends what has become ready.
  void flush(uint64_t now);
  uint64_t next_timer() const;

 private:
  enum class Sent { kYes, kNotYet, kBlocked, kBroken };

  struct Connection {
    int socket;  // 0: free
    uint64_t blocked_since_ms;
    uint32_t answer_count;
    Answer answers[kAnswersMax];
  };

  Sent try_send(Connection* connection, const Answer& answer, uint64_t now);
  Sent send_bytes(Connection* connection, size_t size);
  Sent send_plain(Connection* connection, const Answer& answer);
  Sent send_read(Connection* connection, const Answer& answer, Job* job);
  Sent send_write(Connection* connection, const Answer& answer, const Job& job);
  Sent send_list(Connection* connection, const Answer& answer);
  void block(uint32_t index, uint64_t now);

  Poller* poller_;
  Jobs* jobs_;
  WaitingShell* shell_;
  // Apart from the connections: a look at which there are touches no page of those that are not.
  bool open_[kConnectionsMax];
  Connection connections_[kConnectionsMax];
};

}  // namespace pons::cell
