#pragma once

#include <cstddef>
#include <utility>

namespace pons::gateway {

// The memory that all requests take together.
struct BodyMemory {
  std::size_t bytes_max = std::size_t{256} << 20;
  std::size_t bytes = 0;
};

// What one request takes of it: its body as far as it has come, and the copy that goes to a
// provider. Given back when the share is dropped or left.
class BodyShare {
 public:
  BodyShare() = default;
  explicit BodyShare(BodyMemory& memory) : memory_(&memory) {}
  BodyShare(BodyShare&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  BodyShare& operator=(BodyShare&& other) noexcept {
    BodyShare incoming(std::move(other));
    std::swap(memory_, incoming.memory_);
    std::swap(bytes_, incoming.bytes_);
    return *this;
  }
  ~BodyShare() { leave(); }

  // A request that is alone always fits: another limit bounds it.
  bool has_room_for(std::size_t body_bytes) const {
    const std::size_t others = memory_->bytes - bytes_;
    return others == 0 || others + kCopies * body_bytes <= memory_->bytes_max;
  }
  // False when there is no room; nothing changes then.
  bool grow_to(std::size_t body_bytes) {
    if (!has_room_for(body_bytes)) return false;
    memory_->bytes += kCopies * body_bytes - bytes_;
    bytes_ = kCopies * body_bytes;
    return true;
  }
  void leave() {
    if (memory_ != nullptr) memory_->bytes -= std::exchange(bytes_, 0);
  }

 private:
  static constexpr std::size_t kCopies = 2;

  BodyMemory* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace pons::gateway
