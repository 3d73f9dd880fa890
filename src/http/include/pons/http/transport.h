#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"
#include "pons/linux/loop.h"

namespace pons::http {

// What one attempt to move bytes did. Attempts never block.
struct IoOutcome {
  enum class State : std::uint8_t { kDone, kWantRead, kWantWrite, kEnd, kFailed };
  State state = State::kDone;
  std::size_t bytes = 0;
  int os_error = 0;
};

// A connected byte stream: plain socket or TLS. Hot paths try first and wait only when told to;
// everything else uses read_some and write_all below.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual IoOutcome try_read(std::span<char> into) = 0;
  virtual IoOutcome try_write(std::span<const iovec> from) = 0;
  // Bytes may be at hand whose event is past: to wait for the socket before a read found nothing
  // would miss them.
  virtual bool has_buffered_input() const = 0;
  // Tells the peer that nothing more will come, without waiting. Reading stays possible.
  virtual void shut_down_writing() = 0;
  // The same for a sender that minds: the notice of TLS may have to wait for room.
  virtual IoOutcome try_shut_down_writing() = 0;
  virtual linux::Watch& watch() = 0;
  virtual int fd() const = 0;
};

// Adopts a connected socket and makes it non-blocking.
Result<std::unique_ptr<Transport>> create_plain_transport(linux::Loop& loop,
                                                          linux::UniqueFd socket);

// At least one byte, or 0 at the end of the stream.
Task<Result<std::size_t>> read_some(Transport& transport, std::span<char> into, TimePoint deadline);

// All of it. A peer that takes no byte for `stall_max` is given up. The spans are consumed: their
// contents change.
Task<Result<void>> write_all(Transport& transport, std::span<iovec> from, Duration stall_max);

// Half-closes the stream: the peer learns that it has everything, and may go on sending.
Task<Result<void>> finish_writing(Transport& transport, Duration stall_max);

// Says that nothing more will come. A close with unread input would make the kernel send a reset
// that can destroy the last bytes on their way, so the peer gets a moment to read them and to close
// first.
Task<> close_gently(Transport& transport, std::span<char> scratch);

// Waits for what an attempt asked for.
Task<linux::Wait> wait_for(Transport& transport, IoOutcome::State wanted, TimePoint deadline);

inline iovec to_iovec(std::string_view bytes) {
  return {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};  // only ever read
}

}  // namespace pons::http
