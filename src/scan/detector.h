#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "layer.h"
#include "pons/scan/needle_set.h"

namespace pons::scan {

// Finds every needle of one stream, as it stands and under every view. Scanner and Scrubber differ
// only in what they do about it.
class Detector {
 public:
  explicit Detector(NeedleSets sets);

  // Reports each hit within the call that brings its last byte.
  void feed(std::string_view piece, HitSink& sink);
  void finish(HitSink& sink);

  // No needle is under way before this offset of the stream; the end of the stream when none is.
  std::uint64_t find_open();
  std::size_t memory_bytes() const;

 private:
  Input latest() const;
  void search(const Input& input, std::size_t from, HitSink& sink);

  Search search_;
  std::vector<std::unique_ptr<Layer>> layers_;
  WipedBytes kept_;  // the latest bytes of the stream
  std::uint64_t stream_bytes_ = 0;
  std::uint64_t open_from_ = 0;
};

}  // namespace pons::scan
