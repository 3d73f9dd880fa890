#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pons::http {

// Follows the bytes of a peer from frame to frame, to know whether a block of fields has begun and
// not ended: nghttp2 tells nothing of that for the blocks it ignores.
class Http2FrameTracker {
 public:
  explicit Http2FrameTracker(std::size_t magic_bytes) : payload_left_(magic_bytes) {}

  void follow(std::string_view bytes);
  bool is_in_block() const { return in_block_; }
  std::uint64_t blocks() const { return blocks_; }  // begun so far
  bool has_push() const { return has_push_; }       // a PUSH_PROMISE was among the frames

 private:
  void begin_frame();

  static constexpr std::size_t kHeadBytes = 9;
  std::uint8_t head_[kHeadBytes] = {};
  std::size_t head_have_ = 0;
  std::size_t payload_left_;
  bool in_block_ = false;
  bool ends_block_ = false;  // with the frame at hand
  std::uint64_t blocks_ = 0;
  bool has_push_ = false;
};

}  // namespace pons::http
