#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/check.h"
#include "scan_fixture.h"

namespace pons::scan {
namespace {

using namespace fixture;

const std::string kNeedles[] = {"tok_0123456789ab", "abcdefghijklmnopq/rs+tuv"};
const std::string kStubs[] = {"kot_9876543210zy", "zyxwvutsrqponmlkj/ih+gfe"};

const NeedleSets& sets() {
  static const NeedleSets kSets = {make_set({kNeedles[0]}), make_set({kNeedles[1]})};
  return kSets;
}

// Bytes below 64 become text; the others bring a needle, encoded in one of many ways.
std::string expand(std::string_view program) {
  static const std::vector<Encoder> kEncoders = [] {
    std::vector<Encoder> all = encoders();
    for (const Encoder more : std::initializer_list<Encoder>{
             [](std::string_view text) { return percent(json(text)); },
             [](std::string_view text) { return std::string(text.substr(0, 7)); },
             [](std::string_view text) { return std::string(text.substr(7)); },
             [](std::string_view text) { return percent(text.substr(0, 9)); },
             [](std::string_view text) { return json(text.substr(9)); }})
      all.push_back(more);
    return all;
  }();
  constexpr std::string_view kText =
      "%\\&=u0041x;#{}:- \r\ntok_bcdefghijklmnABCDEF56789+/\"'|,.amp<>Zz";
  static_assert(kText.size() <= 64);
  std::string text;
  for (const char c : program) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 64) {
      text += kText[byte % kText.size()];
    } else if (byte < 128) {
      text += c;
    } else {
      text += kEncoders[byte / 2 % kEncoders.size()](kNeedles[byte % 2]);
    }
  }
  return text;
}

void check_scan(std::string_view text, Random& random) {
  const auto whole = scan_text(sets(), text);
  for (const std::size_t piece_max : {1, 5, 64}) {
    CHECK(scan_pieces(sets(), text, piece_max, random).has_value() == whole.has_value());
  }
  for (const std::string& needle : kNeedles) {
    if (text.contains(needle) || text.contains(hex(needle)) || text.contains(percent(needle))) {
      CHECK(whole.has_value());
    }
  }
}

void check_scrub(std::string_view text, Random& random) {
  for (const std::size_t piece_max : {1, 9, 4000}) {
    Scrubber scrubber(sets(), [](std::uint32_t set, std::uint32_t) { return kStubs[set]; });
    std::string out;
    auto state = Scrubber::State::kOk;
    random.cut(text, piece_max, [&](std::string_view piece) {
      if (state == Scrubber::State::kOk) state = scrubber.feed(piece, out);
      CHECK(out.size() <= text.size());
    });
    if (state == Scrubber::State::kOk) state = scrubber.finish(out);
    CHECK(state != Scrubber::State::kOk || out.size() == text.size());
    CHECK(!scan_text(sets(), out));
    if (scrubber.replaced().empty()) CHECK(out == text);
  }
}

}  // namespace
}  // namespace pons::scan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 64) return 0;  // each byte may become a whole encoded needle
  pons::scan::fixture::Random random(size);
  const std::string text = pons::scan::expand({reinterpret_cast<const char*>(data), size});
  pons::scan::check_scan(text, random);
  pons::scan::check_scrub(text, random);
  return 0;
}
