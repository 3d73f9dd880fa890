#include "pons/scan/scanner.h"

#include <tuple>
#include <utility>

#include "detector.h"

namespace pons::scan {

namespace {

// Keeps the hit that ends first and, of those, the one with the fewest views: so the outcome is the
// same however the stream is cut.
class FirstHit final : public HitSink {
 public:
  void on_hit(const Hit& hit) override {
    const Order order = order_of(hit);
    if (finding && !(order < order_)) return;
    finding = hit.finding;
    order_ = order;
  }

  std::optional<Finding> finding;

 private:
  using Order = std::tuple<std::uint64_t, View, View, std::uint32_t, Encoding, std::uint32_t>;
  static Order order_of(const Hit& hit) {
    const Finding& found = hit.finding;
    return {hit.end, found.inner, found.outer, found.set, found.encoding, found.id};
  }
  Order order_;
};

}  // namespace

Scanner::Scanner(NeedleSets sets)
    : detector_(sets.empty() ? nullptr : std::make_unique<Detector>(std::move(sets))) {}
Scanner::Scanner(Scanner&&) noexcept = default;
Scanner& Scanner::operator=(Scanner&&) noexcept = default;
Scanner::~Scanner() = default;

std::optional<Finding> Scanner::feed(std::string_view piece) {
  if (found_ || !detector_) return found_;
  FirstHit first;
  detector_->feed(piece, first);
  return found_ = first.finding;
}

std::optional<Finding> Scanner::finish() {
  if (found_ || !detector_) return found_;
  FirstHit first;
  detector_->finish(first);
  return found_ = first.finding;
}

std::size_t Scanner::memory_bytes() const {
  return sizeof(*this) + (detector_ ? detector_->memory_bytes() : 0);
}

std::optional<Finding> scan_text(const NeedleSets& sets, std::string_view text) {
  Scanner scanner(sets);
  scanner.feed(text);
  return scanner.finish();
}

}  // namespace pons::scan
