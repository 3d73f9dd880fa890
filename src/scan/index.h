#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "characters.h"
#include "database.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/scan/needle_set.h"
#include "variants.h"

namespace pons::scan {

// The forms of all needles. Vectorscan looks for the last bytes of each; what ends there is
// compared in full. So the compiled part stays small and a stream needs no state but its latest
// bytes.
class NeedleSet::Index {
 public:
  struct Literal {
    std::uint32_t offset = 0;  // in the texts
    std::uint32_t length = 0;
    std::uint32_t needle = 0;  // position among the needles
    Form form;
  };

  static Result<std::unique_ptr<Index>> create(std::span<const Needle> needles);

  // Calls on_match(literal, begin) for every literal that ends after `from`.
  template <class OnMatch>
  void match(std::string_view text, std::size_t from, OnMatch&& on_match) const;

  // The first place at or after `from` whose text up to the end is the beginning of a literal, and
  // not all of it; text.size() when there is none.
  std::size_t find_open(std::string_view text, std::size_t from) const;

  std::string_view text_of(const Literal& literal) const {
    return texts_.reveal().substr(literal.offset, literal.length);
  }
  // The needle as it was handed in.
  std::string_view plain_of(const Literal& literal) const {
    return text_of(literals_[plain_[literal.needle]]);
  }
  std::uint32_t id_of(const Literal& literal) const { return ids_[literal.needle]; }
  std::size_t longest() const { return longest_; }
  std::size_t memory_bytes() const;

 private:
  void add_forms(std::span<const Needle> needles);
  Result<> compile_anchors();
  void sort_beginnings();
  bool is_open(std::string_view rest) const;
  bool begins_any(std::span<const std::uint32_t> sorted, std::string_view rest,
                  bool caseless) const;

  static constexpr std::size_t kAnchorBytes = 8;

  Secret texts_;
  std::vector<std::uint32_t> ids_;
  std::vector<std::uint32_t> plain_;       // per needle: its plain literal
  std::vector<Literal> literals_;          // those with the same anchor stand together
  std::vector<std::uint32_t> groups_;      // per anchor: its first literal; and the end of all
  std::vector<std::uint32_t> exact_;       // literals by text
  std::vector<std::uint32_t> caseless_;    // likewise
  std::vector<std::uint64_t> beginnings_;  // a bit for each hash of a literal's first bytes
  bool first_bytes_[256] = {};
  std::size_t longest_ = 0;
  std::optional<Database> database_;
};

template <class OnMatch>
void NeedleSet::Index::match(std::string_view text, std::size_t from, OnMatch&& on_match) const {
  const std::size_t start = from - std::min(from, kAnchorBytes - 1);
  database_->search(text.substr(start), [&](unsigned anchor, std::size_t end_from_start) {
    const std::size_t end = start + end_from_start;
    if (end <= from) return;  // anchors may be shorter
    for (std::uint32_t i = groups_[anchor]; i < groups_[anchor + 1]; ++i) {
      const Literal& literal = literals_[i];
      if (literal.length > end) continue;
      const std::size_t begin = end - literal.length;
      const std::string_view candidate = text.substr(begin, literal.length);
      if (is_caseless(literal.form.encoding) ? equal_ignoring_case(candidate, text_of(literal))
                                             : candidate == text_of(literal)) {
        on_match(literal, begin);
      }
    }
  });
}

}  // namespace pons::scan
