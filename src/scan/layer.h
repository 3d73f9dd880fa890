#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "episode.h"
#include "pons/scan/needle_set.h"

namespace pons::scan {

enum class More : std::uint8_t { kFollows, kEnd };

// One view of a growing text. It costs next to nothing until something that it undoes occurs; then
// it follows the text in an Episode, until that is too far back to be part of a needle.
class Layer {
 public:
  // `outer` is kRaw for a view of the stream, or the view whose text this one looks at.
  static std::vector<std::unique_ptr<Layer>> create_all(const Search& search, View outer);

  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  // `input` ends with the bytes that are new and begins at least Search::kept() before them. Must
  // not be told kEnd twice without a reset().
  void feed(const Input& input, More more, HitSink& sink);
  virtual void reset();

  // From here on in the stream a needle may be under way; kNothingOpen when none is.
  std::uint64_t find_open(const Input& input);
  // Between pieces a stream holds only what it needs: there may be very many of them.
  void release_spare_memory();
  std::size_t memory_bytes() const;

 protected:
  Layer(const Search& search, View view, View outer)
      : search_(search), view_(view), outer_(outer) {}

  // Follows the text from input offset next_ on and moves next_.
  virtual void advance(const Input& input, More more, HitSink& sink) = 0;

  bool is_active() const { return episode_.size() > 0; }
  // Starts an episode with what stands before text[at], from `from` on.
  void open(const Input& input, std::size_t from, std::size_t at);
  void search_episode(More more, HitSink& sink);
  void close(HitSink& sink);

  const Search& search_;
  const View view_;
  Episode episode_;
  std::uint64_t next_ = 0;
  // Shorter episodes and openings are not worth a search or a delay.
  std::size_t shortest_ = 0;

 private:
  const View outer_;
  std::vector<std::unique_ptr<Layer>> inner_;  // views of this one's text
};

}  // namespace pons::scan
