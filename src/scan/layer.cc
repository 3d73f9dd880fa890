#include "layer.h"

#include <algorithm>

#include "pons/base/check.h"

namespace pons::scan {

void Layer::feed(const Input& input, More more, HitSink& sink) {
  CHECK(next_ >= input.base);
  advance(input, more, sink);
  if (more == More::kEnd) {
    close(sink);
  } else {
    search_episode(More::kFollows, sink);
  }
}

void Layer::reset() {
  episode_.clear();
  next_ = 0;
  for (const auto& layer : inner_) layer->reset();
}

void Layer::open(const Input& input, std::size_t from, std::size_t at) {
  episode_.begin(std::max<std::uint64_t>(input.origin(at).offset, input.after));
  episode_.append(input, from, at);
}

void Layer::search_episode(More more, HitSink& sink) {
  if (episode_.size() > episode_.searched && episode_.size() >= shortest_) {
    const Input text = episode_.input();
    const View outer = outer_ == View::kRaw ? view_ : outer_;
    const View inner = outer_ == View::kRaw ? View::kRaw : view_;
    search_.match(text, episode_.searched, outer, inner, sink);
    if (outer_ == View::kRaw && view_ < View::kLines) {
      if (inner_.empty()) inner_ = create_all(search_, view_);
      for (const auto& layer : inner_) layer->feed(text, more, sink);
    }
    episode_.searched = episode_.size();
  }
  episode_.trim(search_.kept());
}

void Layer::close(HitSink& sink) {
  search_episode(More::kEnd, sink);
  episode_.clear();
  for (const auto& layer : inner_) layer->reset();
}

std::uint64_t Layer::find_open(const Input& input) {
  std::uint64_t open = kNothingOpen;
  const std::size_t unread = next_ - input.base;
  const bool is_pending = view_ < View::kLines && unread < input.text.size();
  if (is_pending) open = input.origin(unread).offset;
  if (is_active()) {
    const Input text = episode_.input();
    const std::size_t from = std::max(episode_.open_from, text.base) - text.base;
    const std::size_t at = search_.find_open(text.text, from);
    episode_.open_from = text.base + at;
    if (at + shortest_ < text.text.size())
      open = std::min<std::uint64_t>(open, text.origin(at).offset);
    for (const auto& layer : inner_) open = std::min(open, layer->find_open(text));
  } else if (is_pending) {
    const std::size_t at = search_.find_open(input.text.substr(0, unread), 0);
    open = std::min<std::uint64_t>(open, input.origin(at).offset);
  }
  return open;
}

void Layer::release_spare_memory() {
  episode_.release_spare_memory();
  for (const auto& layer : inner_) layer->release_spare_memory();
}

std::size_t Layer::memory_bytes() const {
  std::size_t bytes = sizeof(*this) + episode_.memory_bytes();
  for (const auto& layer : inner_) bytes += layer->memory_bytes();
  return bytes;
}

}  // namespace pons::scan
