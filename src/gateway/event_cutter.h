#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::gateway {

// Cuts a stream of server-sent events between them, so that each can be looked at and passed on as
// the bytes it came as, and an event that breaks off is never passed on.
class EventCutter {
 public:
  // Bounds what is held of one event.
  explicit EventCutter(std::size_t event_bytes_max = std::size_t{8} << 20)
      : event_bytes_max_(event_bytes_max) {}

  void add(std::string_view bytes) { held_ += bytes; }
  // The next whole event with the blank line behind it; valid until the next call. Nothing when
  // none is whole; kLimit when one grows too large.
  Result<std::optional<std::string_view>> next();
  bool has_rest() const { return begin_ < held_.size(); }

 private:
  std::size_t event_bytes_max_;
  std::string held_;
  std::size_t begin_ = 0;    // of the event being read
  std::size_t scanned_ = 0;  // no end stands before this place
};

}  // namespace pons::gateway
