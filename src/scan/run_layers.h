#pragma once

#include "layer.h"

namespace pons::scan {

// Base64, base32 or hex that line breaks interrupt. Blanks after a line break are dropped with it.
class LinesLayer final : public Layer {
 public:
  LinesLayer(const Search& search, View outer);

 private:
  void advance(const Input& input, More more, HitSink& sink) override;
  // Where to go on after the line feed; opens an episode if there is something to follow.
  std::size_t open_at_break(const Input& input, std::size_t line_feed);

  std::size_t since_break_ = 0;
};

// Pairs of hex digits with one separator between each two.
class SeparatorsLayer final : public Layer {
 public:
  SeparatorsLayer(const Search& search, View outer);
  void reset() override;

 private:
  void advance(const Input& input, More more, HitSink& sink) override;
  std::size_t follow_run(const Input& input, std::size_t at, HitSink& sink);

  bool in_run_ = false;
  unsigned digits_ = 0;  // since the last separator
};

}  // namespace pons::scan
