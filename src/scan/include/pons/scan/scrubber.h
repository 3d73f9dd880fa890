#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/scan/needle_set.h"

namespace pons::scan {

// What stands in for a needle. It has the needle's length, differs from it, and keeps each
// character that is not a letter or digit in its place. Nothing means: this needle must not be
// rewritten, cut the stream. Asked only when a needle is found.
using Replacements = std::function<std::optional<std::string>(std::uint32_t set, std::uint32_t id)>;

// Replaces needles in a stream by stand-ins of the same length in the same encoding. What comes out
// has the length of what went in, holds no needle in any form that a Scanner finds, and equals the
// input when no needle is in it.
//
// A byte is held back only while it may belong to a needle that is not complete: text that cannot
// begin one is delivered at once. Two forms are treated more loosely, so that text which ends in a
// line break is not delayed: of needles broken over lines or hex with separators the first few
// characters may already be out when more arrives. They end in kCannotScrub, as do needles under
// two views.
class Scrubber {
 public:
  enum class State : std::uint8_t {
    kOk,
    kCannotScrub,  // a needle cannot be replaced: end the connection. Nothing more comes out
  };
  struct Replaced {
    Finding finding;
    std::size_t count = 0;
  };

  Scrubber(NeedleSets sets, Replacements replacements);
  Scrubber(Scrubber&&) noexcept;
  Scrubber& operator=(Scrubber&&) noexcept;
  ~Scrubber();

  // Appends to `out` what may be sent on.
  [[nodiscard]] State feed(std::string_view piece, std::string& out);
  [[nodiscard]] State finish(std::string& out);

  // What was found so far; with kCannotScrub the last one is the one that could not be replaced.
  const std::vector<Replaced>& replaced() const;
  std::size_t held_bytes() const;

 private:
  class Rewriting;
  std::unique_ptr<Rewriting> rewriting_;
};

}  // namespace pons::scan
