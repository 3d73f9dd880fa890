#include "pons/scan/scrubber.h"

#include <algorithm>
#include <utility>

#include "characters.h"
#include "detector.h"
#include "escapes.h"

namespace pons::scan {

namespace {

bool can_stand_in(std::string_view replacement, std::string_view needle) {
  return replacement != needle &&
         std::ranges::equal(replacement, needle, [](char ours, char theirs) {
           return is_alphanumeric(theirs) ? is_alphanumeric(ours) : ours == theirs;
         });
}

// In the same letter case as what it replaces.
void match_case(std::string_view original, WipedBytes& encoded) {
  if (std::ranges::none_of(original, [](char c) { return c >= 'A' && c <= 'Z'; })) return;
  for (char& c : encoded) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
}

}  // namespace

class Scrubber::Rewriting final : public HitSink {
 public:
  Rewriting(NeedleSets sets, Replacements replacements) : replacements_(std::move(replacements)) {
    if (!sets.empty()) detector_.emplace(std::move(sets));
  }

  State feed(std::string_view piece, std::string& out);
  State finish(std::string& out);
  void on_hit(const Hit& hit) override;

  std::vector<Replaced> replaced;
  WipedBytes held;

 private:
  struct Done {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint32_t set = 0;
    std::uint32_t id = 0;

    bool operator==(const Done&) const = default;
  };

  bool rewrite(const Hit& hit, std::string_view replacement);
  void count(const Finding& finding);
  void release(std::string& out, std::size_t start, std::uint64_t end);
  char* at(std::uint64_t offset) { return open_text_ + (offset - released_); }

  std::optional<Detector> detector_;
  Replacements replacements_;
  std::uint64_t released_ = 0;  // so much of the stream is out
  char* open_text_ = nullptr;   // during a call: where the stream from released_ on stands
  std::vector<Done> done_;      // hits that reach beyond released_
  State state_ = State::kOk;
};

Scrubber::State Scrubber::Rewriting::feed(std::string_view piece, std::string& out) {
  if (state_ != State::kOk || piece.empty()) return state_;
  const std::size_t start = out.size();
  out.append(view_of(held)).append(piece);
  if (!detector_) return state_;
  open_text_ = out.data() + start;
  detector_->feed(piece, *this);
  // A needle may turn out to have begun before what is held.
  release(out, start,
          state_ == State::kOk ? std::max(released_, detector_->find_open()) : released_);
  return state_;
}

Scrubber::State Scrubber::Rewriting::finish(std::string& out) {
  if (state_ != State::kOk || !detector_) return state_;
  const std::size_t start = out.size();
  out.append(view_of(held));
  open_text_ = out.data() + start;
  detector_->finish(*this);
  release(out, start, released_ + (state_ == State::kOk ? held.size() : 0));
  return state_;
}

// out[start…] is the stream from released_ on; keeps what stands before `end` and holds the rest.
void Scrubber::Rewriting::release(std::string& out, std::size_t start, std::uint64_t end) {
  const std::size_t kept = start + (end - released_);
  const std::string_view rest = std::string_view(out).substr(kept);
  held.clear();
  if (state_ == State::kOk) append(held, rest);
  wipe(out.data() + kept, rest.size());
  out.resize(kept);
  released_ = end;
  std::erase_if(done_, [end](const Done& done) { return done.end <= end; });
}

void Scrubber::Rewriting::on_hit(const Hit& hit) {
  if (state_ != State::kOk) return;
  // The same place under a view in which it looks no different.
  const Done done{hit.begin, hit.end, hit.finding.set, hit.finding.id};
  if (std::ranges::find(done_, done) != done_.end()) return;
  count(hit.finding);
  std::optional<std::string> replacement = replacements_(hit.finding.set, hit.finding.id);
  if (!replacement || !rewrite(hit, *replacement)) state_ = State::kCannotScrub;
  done_.push_back(done);
}

bool Scrubber::Rewriting::rewrite(const Hit& hit, std::string_view replacement) {
  const std::string_view needle = hit.index->plain_of(*hit.literal);
  if (hit.begin < released_ || hit.finding.inner != View::kRaw) return false;
  if (!can_stand_in(replacement, needle)) return false;
  WipedBytes encoded = encode(hit.literal->form, replacement);
  const Form form = hit.literal->form;
  if (hit.origins.empty()) {
    if (is_caseless(form.encoding)) match_case({at(hit.begin), encoded.size()}, encoded);
    std::ranges::copy(encoded, at(hit.begin));
    return true;
  }
  const std::string_view original = hit.index->text_of(*hit.literal);
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const Origin origin = hit.origins[i];
    if (encoded[i] == original[i]) continue;
    if (origin.length == 1) {
      *at(origin.offset) = encoded[i];
    } else {
      rewrite_escape(hit.finding.outer, {at(origin.offset), origin.length}, encoded[i]);
    }
  }
  return true;
}

void Scrubber::Rewriting::count(const Finding& finding) {
  const auto same = std::ranges::find(replaced, finding, &Replaced::finding);
  if (same != replaced.end()) {
    ++same->count;
    std::rotate(same, same + 1, replaced.end());
  } else {
    replaced.push_back({.finding = finding, .count = 1});
  }
}

Scrubber::Scrubber(NeedleSets sets, Replacements replacements)
    : rewriting_(std::make_unique<Rewriting>(std::move(sets), std::move(replacements))) {}
Scrubber::Scrubber(Scrubber&&) noexcept = default;
Scrubber& Scrubber::operator=(Scrubber&&) noexcept = default;
Scrubber::~Scrubber() = default;

Scrubber::State Scrubber::feed(std::string_view piece, std::string& out) {
  return rewriting_->feed(piece, out);
}

Scrubber::State Scrubber::finish(std::string& out) {
  return rewriting_->finish(out);
}

const std::vector<Scrubber::Replaced>& Scrubber::replaced() const {
  return rewriting_->replaced;
}

std::size_t Scrubber::held_bytes() const {
  return rewriting_->held.size();
}

}  // namespace pons::scan
