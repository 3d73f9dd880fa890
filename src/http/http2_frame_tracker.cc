#include "http2_frame_tracker.h"

#include <algorithm>
#include <cstring>

namespace pons::http {

namespace {
constexpr std::uint8_t kHeaders = 1;
constexpr std::uint8_t kPushPromise = 5;
constexpr std::uint8_t kContinuation = 9;
constexpr std::uint8_t kEndHeaders = 4;
}  // namespace

void Http2FrameTracker::follow(std::string_view bytes) {
  while (!bytes.empty() || (payload_left_ == 0 && ends_block_)) {
    if (payload_left_ > 0) {
      const std::size_t step = std::min(payload_left_, bytes.size());
      payload_left_ -= step;
      bytes.remove_prefix(step);
    }
    if (payload_left_ > 0) return;
    if (ends_block_) in_block_ = ends_block_ = false;
    const std::size_t step = std::min(kHeadBytes - head_have_, bytes.size());
    std::memcpy(head_ + head_have_, bytes.data(), step);
    head_have_ += step;
    bytes.remove_prefix(step);
    if (head_have_ == kHeadBytes) begin_frame();
  }
}

void Http2FrameTracker::begin_frame() {
  head_have_ = 0;
  payload_left_ = (std::size_t{head_[0]} << 16) | (std::size_t{head_[1]} << 8) | head_[2];
  const std::uint8_t type = head_[3];
  if (type == kHeaders || type == kPushPromise) {
    in_block_ = true;
    ++blocks_;
  }
  if (type == kPushPromise) has_push_ = true;
  const bool is_part = type == kHeaders || type == kPushPromise || type == kContinuation;
  ends_block_ = is_part && (head_[4] & kEndHeaders) != 0;
}

}  // namespace pons::http
