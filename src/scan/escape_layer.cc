#include "escape_layer.h"

#include <algorithm>

#include "escapes.h"

namespace pons::scan {

void EscapeLayer::advance(const Input& input, More more, HitSink& sink) {
  const char trigger = escape_trigger(view_);
  const std::string_view text = input.text;
  std::size_t at = next_ - input.base;
  while (at < text.size()) {
    // An escape that is further back is part of no needle: the episode ends.
    const std::size_t limit =
        is_active() ? std::min(text.size(), at + (search_.reach() - since_escape_)) : text.size();
    const std::size_t found = std::min(text.substr(0, limit).find(trigger, at), limit);
    take_plain(input, at, found);
    at = found;
    if (found == limit) {
      if (is_active() && since_escape_ == search_.reach()) close(sink);
      continue;
    }
    const Escape escape = read_escape(view_, text.substr(at));
    if (escape.state == Escape::State::kNeedMore && more == More::kFollows) break;
    if (escape.state == Escape::State::kEscape) {
      take_escape(input, at, escape);
      at += escape.raw_bytes;
    } else {
      take_plain(input, at, at + 1);
      ++at;
    }
  }
  next_ = input.base + at;
}

void EscapeLayer::take_plain(const Input& input, std::size_t from, std::size_t to) {
  if (!is_active()) return;
  episode_.append(input, from, to);
  since_escape_ += to - from;
}

void EscapeLayer::take_escape(const Input& input, std::size_t at, const Escape& escape) {
  if (!is_active()) open(input, at - std::min(at, search_.reach()), at);
  const Origin first = input.origin(at);
  const std::uint64_t length = input.origin(at + escape.raw_bytes - 1).end() - first.offset;
  episode_.append(escape.decoded(), {.offset = first.offset, .length = std::min(length, 255UL)});
  since_escape_ = 0;
}

}  // namespace pons::scan
