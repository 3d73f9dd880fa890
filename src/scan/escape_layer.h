#pragma once

#include "layer.h"

namespace pons::scan {

// Percent, JSON, HTML, quoted-printable: sequences that begin with one certain character.
class EscapeLayer final : public Layer {
 public:
  EscapeLayer(const Search& search, View view, View outer) : Layer(search, view, outer) {}

 private:
  void advance(const Input& input, More more, HitSink& sink) override;
  void take_plain(const Input& input, std::size_t from, std::size_t to);
  void take_escape(const Input& input, std::size_t at, const struct Escape& escape);

  std::size_t since_escape_ = 0;
};

}  // namespace pons::scan
