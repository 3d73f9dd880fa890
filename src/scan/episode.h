#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "index.h"
#include "pons/scan/needle_set.h"
#include "wiped.h"

namespace pons::scan {

// Where in the stream a byte of a text comes from.
struct Origin {
  std::uint64_t offset : 56 = 0;
  std::uint64_t length : 8 = 0;

  std::uint64_t end() const { return offset + length; }
};

// The latest part of a text that grows: the stream itself, or what a view makes of it.
struct Input {
  std::string_view text;
  std::uint64_t base = 0;           // offset of text[0] since the text began
  const Origin* origins = nullptr;  // of each byte; none for the stream itself
  // What ends in the stream up to here holds nothing that was undone, and was reported without.
  std::uint64_t after = 0;

  Origin origin(std::size_t at) const {
    return origins != nullptr ? origins[at] : Origin{.offset = base + at, .length = 1};
  }
};

struct Hit {
  Finding finding;
  const NeedleSet::Index* index = nullptr;
  const NeedleSet::Index::Literal* literal = nullptr;
  std::span<const Origin> origins;  // of each byte of the literal; none for the stream itself
  std::uint64_t begin = 0;          // in the stream
  std::uint64_t end = 0;
};

class HitSink {
 public:
  virtual void on_hit(const Hit& hit) = 0;

 protected:
  ~HitSink() = default;
};

inline constexpr std::uint64_t kNothingOpen = std::numeric_limits<std::uint64_t>::max();

// What all views of one detector share.
class Search {
 public:
  explicit Search(NeedleSets sets);

  // Reports the literals that end after text[from] and, in the stream, after input.after.
  void match(const Input& input, std::size_t from, View outer, View inner, HitSink& sink) const;
  // See NeedleSet::Index::find_open().
  std::size_t find_open(std::string_view text, std::size_t from) const;

  // A needle that includes a given byte lies within so many bytes on each side of it.
  std::size_t reach() const { return reach_; }
  // How much of a text a view wants to see again with the next piece.
  std::size_t kept() const { return reach_ + 80; }

 private:
  NeedleSets sets_;
  std::size_t reach_ = 0;
};

// A stretch of text with something undone in it.
class Episode {
 public:
  // `after`: see Input.
  void begin(std::uint64_t after) { after_ = after; }
  void append(const Input& input, std::size_t from, std::size_t to);
  void append(std::string_view decoded, Origin origin);
  void trim(std::size_t kept);
  void clear();  // keeps its memory for the next one
  void release_spare_memory();

  Input input() const {
    return {.text = view_of(text_), .base = base_, .origins = origins_.data(), .after = after_};
  }
  std::size_t size() const { return text_.size(); }
  std::size_t memory_bytes() const {
    return text_.capacity() + origins_.capacity() * sizeof(Origin);
  }

  std::size_t searched = 0;     // so much of the text is done with
  std::uint64_t open_from = 0;  // no needle is open before this offset of the text

 private:
  WipedBytes text_;
  std::vector<Origin> origins_;
  std::uint64_t base_ = 0;
  std::uint64_t after_ = 0;
};

}  // namespace pons::scan
