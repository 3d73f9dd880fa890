#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/transport.h"

namespace pons::http {

// What came over a connection and was not taken yet. The memory is borrowed, and given back
// whenever there is nothing in it: most connections wait most of the time, and thousands of them
// share a few buffers.
class ReadBuffer {
 public:
  ReadBuffer() = default;
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;
  ~ReadBuffer() { give_back(); }

  std::string_view unread() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool is_empty() const { return begin_ == end_; }
  // The last read left room, so it took all there was.
  bool has_room() const { return end_ < capacity_; }

  // Where the next bytes go, behind those that are unread. Moves them, which ends all views. It is
  // empty only when `bytes_max` or more are unread.
  std::span<char> room(std::size_t bytes_max);
  void add(std::size_t bytes) { end_ += bytes; }  // that were read into the room
  void consume(std::size_t bytes) { begin_ += bytes; }
  // Gives the memory back if nothing is in it.
  void rest() {
    if (is_empty()) give_back();
  }

 private:
  void give_back();

  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // unread bytes are [begin_, end_)
  std::size_t end_ = 0;
};

// Reads at least one byte, or 0 at the end of the stream, and holds no memory while it waits for
// the first. At most `bytes_max` are unread afterwards, and fewer must be before.
Task<Result<std::size_t>> read_into(Transport& transport, ReadBuffer& buffer, std::size_t bytes_max,
                                    TimePoint deadline);

}  // namespace pons::http
