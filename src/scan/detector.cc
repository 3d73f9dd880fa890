#include "detector.h"

#include <algorithm>
#include <utility>

namespace pons::scan {

namespace {

// Small enough for the processor's caches, as each block is read by every view.
constexpr std::size_t kBlockBytes = 16384;

// The bytes of a block must follow the latest ones without a gap. One such buffer serves all
// detectors of a thread, one after the other.
thread_local WipedBytes spare_buffer;

}  // namespace

Detector::Detector(NeedleSets sets) : search_(std::move(sets)) {
  layers_ = Layer::create_all(search_, View::kRaw);
}

void Detector::feed(std::string_view piece, HitSink& sink) {
  WipedBytes buffer = std::exchange(spare_buffer, {});
  while (!piece.empty()) {
    const std::string_view block = piece.substr(0, kBlockBytes);
    piece.remove_prefix(block.size());
    buffer.assign(kept_.begin(), kept_.end());
    append(buffer, block);
    const Input input{.text = view_of(buffer), .base = stream_bytes_ - kept_.size()};
    stream_bytes_ += block.size();
    search_.match(input, kept_.size(), View::kRaw, View::kRaw, sink);
    for (const auto& layer : layers_) layer->feed(input, More::kFollows, sink);
    const std::size_t kept = std::min(buffer.size(), search_.kept());
    kept_.assign(buffer.end() - static_cast<std::ptrdiff_t>(kept), buffer.end());
  }
  for (const auto& layer : layers_) layer->release_spare_memory();
  spare_buffer = std::move(buffer);
}

void Detector::finish(HitSink& sink) {
  for (const auto& layer : layers_) layer->feed(latest(), More::kEnd, sink);
}

Input Detector::latest() const {
  return {.text = view_of(kept_), .base = stream_bytes_ - kept_.size()};
}

std::uint64_t Detector::find_open() {
  const Input input = latest();
  const std::size_t from = std::max(open_from_, input.base) - input.base;
  open_from_ = input.base + search_.find_open(input.text, from);
  std::uint64_t open = open_from_;
  for (const auto& layer : layers_) open = std::min(open, layer->find_open(input));
  return open;
}

std::size_t Detector::memory_bytes() const {
  std::size_t bytes = sizeof(*this) + kept_.capacity();
  for (const auto& layer : layers_) bytes += layer->memory_bytes();
  return bytes;
}

}  // namespace pons::scan
