#include "read_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "pons/base/check.h"

namespace pons::http {

namespace {

constexpr std::size_t kBytes = 32 * 1024;

// A thread has one loop, and few of its connections have bytes at the same time. AddressSanitizer
// finds views that outlive their buffer only if that is really freed.
#if defined(__has_feature) && __has_feature(address_sanitizer)
constexpr std::size_t kSpareMax = 0;
#else
constexpr std::size_t kSpareMax = 16;
#endif

thread_local std::vector<std::unique_ptr<char[]>> spare_buffers;

std::unique_ptr<char[]> borrow() {
  if (spare_buffers.empty()) return std::unique_ptr<char[]>(new char[kBytes]);
  auto bytes = std::move(spare_buffers.back());
  spare_buffers.pop_back();
  return bytes;
}

}  // namespace

void ReadBuffer::give_back() {
  if (capacity_ == kBytes && spare_buffers.size() < kSpareMax)
    spare_buffers.push_back(std::move(bytes_));
  bytes_.reset();
  capacity_ = begin_ = end_ = 0;
}

std::span<char> ReadBuffer::room(std::size_t bytes_max) {
  if (is_empty()) begin_ = end_ = 0;
  if (bytes_ == nullptr) {
    bytes_ = borrow();
    capacity_ = kBytes;
  }
  if (end_ == capacity_ && begin_ > 0) {
    std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == capacity_ && capacity_ < bytes_max) {
    std::unique_ptr<char[]> larger(new char[bytes_max]);
    std::memcpy(larger.get(), bytes_.get(), end_);
    bytes_ = std::move(larger);
    capacity_ = bytes_max;
  }
  return {bytes_.get() + end_, capacity_ - end_};
}

Task<Result<std::size_t>> read_into(Transport& transport, ReadBuffer& buffer, std::size_t bytes_max,
                                    TimePoint deadline) {
  using State = IoOutcome::State;
  for (;;) {
    const std::span<char> room = buffer.room(bytes_max);
    CHECK(!room.empty());
    const IoOutcome outcome = transport.try_read(room);
    if (outcome.state == State::kDone) {
      buffer.add(outcome.bytes);
      co_return outcome.bytes;
    }
    buffer.rest();
    if (outcome.state == State::kEnd) co_return std::size_t{0};
    if (outcome.state == State::kFailed) co_return os_error("read from peer", {}, outcome.os_error);
    if (co_await wait_for(transport, outcome.state, deadline) == linux::Wait::kTimeout)
      co_return make_error(ErrorCode::kTimeout, "read from peer",
                           "nothing came before the deadline");
  }
}

}  // namespace pons::http
