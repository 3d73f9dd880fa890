#include "event_cutter.h"

namespace pons::gateway {

namespace {

// Where the line break at `at` ends, or npos when it may go on with bytes that are not here yet.
std::size_t break_end(std::string_view text, std::size_t at) {
  if (text[at] == '\n') return at + 1;
  if (at + 1 == text.size()) return std::string_view::npos;
  return text[at + 1] == '\n' ? at + 2 : at + 1;
}

}  // namespace

Result<std::optional<std::string_view>> EventCutter::next() {
  // A blank line is a line break right behind another.
  while (scanned_ < held_.size()) {
    const std::size_t found = held_.find_first_of("\r\n", scanned_);
    if (found == std::string::npos) {
      scanned_ = held_.size();
      break;
    }
    const std::size_t behind = break_end(held_, found);
    if (behind == std::string::npos || behind == held_.size()) {
      scanned_ = found;
      break;
    }
    if (held_[behind] != '\r' && held_[behind] != '\n') {
      scanned_ = behind;
      continue;
    }
    std::size_t end = break_end(held_, behind);
    if (end == std::string::npos)
      end = behind + 1;  // the rest of this break becomes an empty event
    const std::string_view event(held_.data() + begin_, end - begin_);
    begin_ = end;
    scanned_ = end;
    return std::optional(event);
  }
  held_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  if (held_.size() > event_bytes_max_)
    return make_error(ErrorCode::kLimit, "read events", "an event of the provider is too large");
  return std::optional<std::string_view>();
}

}  // namespace pons::gateway
