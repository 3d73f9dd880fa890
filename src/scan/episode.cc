#include "episode.h"

#include <algorithm>
#include <utility>

namespace pons::scan {

Search::Search(NeedleSets sets) : sets_(std::move(sets)) {
  for (const auto& set : sets_) {
    reach_ = std::max(reach_, set->index().longest() - 1);
  }
}

void Search::match(const Input& input, std::size_t from, View outer, View inner,
                   HitSink& sink) const {
  struct Match {
    const NeedleSet::Index::Literal* literal;
    std::size_t begin;
  };
  for (std::uint32_t set = 0; set < sets_.size(); ++set) {
    const NeedleSet::Index& index = sets_[set]->index();
    // Reported after the search, so that whoever hears of it may search as well.
    std::vector<Match> matches;
    index.match(input.text, from, [&](const NeedleSet::Index::Literal& literal, std::size_t begin) {
      matches.push_back({&literal, begin});
    });
    for (const auto& [literal, begin] : matches) {
      Hit hit{.finding = {.set = set,
                          .id = index.id_of(*literal),
                          .encoding = literal->form.encoding,
                          .outer = outer,
                          .inner = inner},
              .index = &index,
              .literal = literal,
              .begin = input.origin(begin).offset,
              .end = input.origin(begin + literal->length - 1).end()};
      if (input.origins != nullptr) hit.origins = {input.origins + begin, literal->length};
      if (hit.end > input.after) sink.on_hit(hit);
    }
  }
}

std::size_t Search::find_open(std::string_view text, std::size_t from) const {
  std::size_t open = text.size();
  for (const auto& set : sets_) open = std::min(open, set->index().find_open(text, from));
  return open;
}

void Episode::append(const Input& input, std::size_t from, std::size_t to) {
  scan::append(text_, input.text.substr(from, to - from));
  if (input.origins != nullptr) {
    origins_.insert(origins_.end(), input.origins + from, input.origins + to);
    return;
  }
  const std::size_t old_size = origins_.size();
  origins_.resize(old_size + (to - from));
  for (std::size_t i = from; i < to; ++i) {
    origins_[old_size + (i - from)] = {.offset = input.base + i, .length = 1};
  }
}

void Episode::append(std::string_view decoded, Origin origin) {
  scan::append(text_, decoded);
  origins_.insert(origins_.end(), decoded.size(), origin);
}

void Episode::trim(std::size_t kept) {
  if (text_.size() <= kept) return;
  const std::size_t dropped = text_.size() - kept;
  text_.erase(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(dropped));
  origins_.erase(origins_.begin(), origins_.begin() + static_cast<std::ptrdiff_t>(dropped));
  base_ += dropped;
  searched -= std::min(searched, dropped);
}

void Episode::clear() {
  text_.clear();
  origins_.clear();
  base_ = 0;
  after_ = 0;
  searched = 0;
  open_from = 0;
}

void Episode::release_spare_memory() {
  if (text_.capacity() <= 2 * text_.size()) return;
  text_.shrink_to_fit();
  origins_.shrink_to_fit();
}

}  // namespace pons::scan
