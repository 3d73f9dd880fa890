#include "pons/scan/scrubber.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "pons/scan/scanner.h"
#include "scan_fixture.h"

namespace pons::scan {
namespace {

using namespace fixture;
using State = Scrubber::State;

const std::string kSecret = "ghp_Z8qT/1fKx.0aVtR3mWcYb7Lh2Nd4Pe6Sg9Uj5Kw8R";
const std::string kStub = "ghp_9yXw/Vu7t.5rQpO3nMlKj1Ih2GfEdCbA0zYx4Hq7N";

class ScrubberTest : public testing::Test {
 protected:
  Scrubber scrubber() {
    return {sets_, [this](std::uint32_t, std::uint32_t) { return replacement_; }};
  }

  struct Outcome {
    State state = State::kOk;
    std::string text;
  };
  Outcome scrub(std::string_view text, std::size_t piece_max = 1 << 20) {
    Scrubber scrubber = this->scrubber();
    Outcome outcome;
    random_.cut(text, piece_max, [&](std::string_view piece) {
      if (outcome.state == State::kOk) outcome.state = scrubber.feed(piece, outcome.text);
    });
    if (outcome.state == State::kOk) outcome.state = scrubber.finish(outcome.text);
    return outcome;
  }

  void expect_scrubbed(const std::function<std::string(std::string_view)>& encode) {
    const std::string text = "before |" + encode(kSecret) + "| after";
    const std::string expected = "before |" + encode(kStub) + "| after";
    EXPECT_EQ(scrub(text).text, expected);
    EXPECT_EQ(scrub(text, 1).text, expected);
    EXPECT_EQ(scrub(text, 9).text, expected);
  }

  Random random_{3};
  std::optional<std::string> replacement_ = kStub;
  NeedleSets sets_ = {make_set({kSecret})};
};

TEST_F(ScrubberTest, EachEncodingIsReplacedByTheSameEncodingOfTheStandIn) {
  expect_scrubbed([](std::string_view text) { return std::string(text); });
  for (const auto encode : {base64, hex, upper_hex, base32, lower_base32, utf16_le, utf16_be,
                            percent, json, html, quoted_printable}) {
    expect_scrubbed(encode);
  }
  expect_scrubbed([](std::string_view text) { return percent(base64(text)); });
  expect_scrubbed([](std::string_view text) { return every(text, 9, "=\r\n"); });
  expect_scrubbed([](std::string_view text) { return "a%2Fb" + std::string(text); });
}

TEST_F(ScrubberTest, SurroundingsInTheSameBase64Survive) {
  for (std::size_t before = 0; before < 6; ++before) {
    const std::string prefix = random_.from("user:", before);
    const std::string out = scrub(base64(prefix + kSecret + "tail")).text;
    EXPECT_EQ(out.size(), base64(prefix + kSecret + "tail").size());
    EXPECT_EQ(out.substr(0, before * 4 / 3), base64(prefix).substr(0, before * 4 / 3));
    EXPECT_EQ(scan_text(sets_, out), std::nullopt);
  }
}

TEST_F(ScrubberTest, BrokenLinesAndSeparatorsAreReplacedInOnePiece) {
  EXPECT_EQ(scrub(every(base64(kSecret), 12, "\r\n")).text, every(base64(kStub), 12, "\r\n"));
  EXPECT_EQ(scrub(every(upper_hex(kSecret), 2, ":")).text.size(), kSecret.size() * 3 - 1);
}

TEST_F(ScrubberTest, DecimalReferencesKeepTheirLengthAndLoseTheSecret) {
  const std::string text = html_decimal(kSecret);
  const Outcome outcome = scrub(text, 5);
  EXPECT_EQ(outcome.state, State::kOk);
  EXPECT_EQ(outcome.text.size(), text.size());
  EXPECT_EQ(scan_text(sets_, outcome.text), std::nullopt);
}

TEST_F(ScrubberTest, TwoViewsAtOnceCutTheStreamBeforeTheNeedleIsOut) {
  for (const std::size_t piece_max : {1, 7, 1000}) {
    const Outcome outcome = scrub("text " + json(percent(kSecret)) + " more", piece_max);
    EXPECT_EQ(outcome.state, State::kCannotScrub);
    EXPECT_THAT(outcome.text, testing::AnyOf("", "text "));
  }
}

TEST_F(ScrubberTest, BrokenLinesInTinyPiecesAreReplacedOrCut) {
  for (const std::size_t width : {1, 5, 20}) {
    const Outcome outcome = scrub(every(base64(kSecret), width, "\n"), 1);
    EXPECT_EQ(outcome.state, width < 8 ? State::kCannotScrub : State::kOk) << width;
    EXPECT_EQ(scan_text(sets_, outcome.text), std::nullopt);
    if (width < 8) EXPECT_LE(outcome.text.size(), 16U);
  }
}

TEST_F(ScrubberTest, NothingComesOutAfterACut) {
  replacement_.reset();
  Scrubber scrubber = this->scrubber();
  std::string out;
  EXPECT_EQ(scrubber.feed("ok, ", out), State::kOk);
  EXPECT_EQ(scrubber.feed("then " + kSecret, out), State::kCannotScrub);
  EXPECT_EQ(scrubber.feed("more", out), State::kCannotScrub);
  EXPECT_EQ(scrubber.finish(out), State::kCannotScrub);
  EXPECT_EQ(out, "ok, ");
  EXPECT_EQ(scrubber.replaced().back().count, 1U);
}

TEST_F(ScrubberTest, AnUnfitStandInCuts) {
  for (const std::string& unfit :
       {std::string("short"), kSecret, kStub + "x", std::string(kSecret.size(), 'x')}) {
    replacement_ = unfit;
    EXPECT_EQ(scrub(kSecret).state, State::kCannotScrub) << unfit;
  }
}

TEST_F(ScrubberTest, TextThatCannotBeginANeedleIsNeverHeldBack) {
  Scrubber scrubber = this->scrubber();
  std::string sent;
  std::string out;
  for (const std::string_view event :
       {"data: {\"delta\":\"!\"}\n\n", "data: 100%\n\n", ": ping\n\n", "data: a=b & c\n\n",
        "event: word\ndata: [DONE]\n\n", "data: 12:30:45\n\n", "data: QUJDREVG\n\n"}) {
    sent += event;
    EXPECT_EQ(scrubber.feed(event, out), State::kOk);
    EXPECT_EQ(scrubber.held_bytes(), 0U) << event;
    EXPECT_EQ(out, sent);
  }
}

TEST_F(ScrubberTest, OnlyTheStartOfANeedleIsHeldBack) {
  for (std::size_t length = 1; length < kSecret.size(); ++length) {
    Scrubber scrubber = this->scrubber();
    std::string out;
    EXPECT_EQ(scrubber.feed("xyz " + kSecret.substr(0, length), out), State::kOk);
    EXPECT_EQ(out, "xyz ");
    EXPECT_EQ(scrubber.feed("!!", out), State::kOk);
    EXPECT_EQ(scrubber.held_bytes(), 0U);
    EXPECT_EQ(scrubber.finish(out), State::kOk);
    EXPECT_EQ(out, "xyz " + kSecret.substr(0, length) + "!!");
  }
}

TEST_F(ScrubberTest, CountsTellWhatWasFoundAndHow) {
  Scrubber scrubber = this->scrubber();
  std::string out;
  EXPECT_EQ(scrubber.feed(kSecret + "%41" + kSecret + " " + hex(kSecret) + "\n", out), State::kOk);
  ASSERT_EQ(scrubber.replaced().size(), 2U);
  EXPECT_EQ(scrubber.replaced()[0].count, 2U);
  EXPECT_EQ(scrubber.replaced()[1].finding.encoding, Encoding::kHex);
}

TEST_F(ScrubberTest, ANeedleSeenBeforeAnEscapeIsNotMetAgainBecauseOfIt) {
  for (const std::string_view escape : {"%41", "\\u0041", "&amp;", "=41", "\nQUJDRA"}) {
    Scrubber scrubber = this->scrubber();
    std::string out;
    EXPECT_EQ(scrubber.feed(kSecret + "!", out), State::kOk);
    EXPECT_EQ(scrubber.feed(percent(kSecret) + "!", out), State::kOk);
    EXPECT_EQ(scrubber.feed(std::string(escape) + "!", out), State::kOk) << escape;
    EXPECT_EQ(scrubber.finish(out), State::kOk);
    EXPECT_EQ(out, kStub + "!" + percent(kStub) + "!" + std::string(escape) + "!");
  }
}

TEST_F(ScrubberTest, OverlappingNeedlesBothDisappear) {
  const std::string first = "first-0123456789abcdef-middle";
  const std::string second = "middle-fedcba9876543210";
  sets_ = {make_set({first, second, "0123456789abcdef-middle-fedc"})};
  const auto scramble = [](std::string text) {
    for (char& c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) c = c == 'z' ? 'y' : 'z';
    }
    return text;
  };
  const std::vector<std::string> stubs = {scramble(first), scramble(second),
                                          scramble("0123456789abcdef-middle-fedc")};
  Scrubber scrubber(sets_, [&](std::uint32_t, std::uint32_t id) { return stubs[id]; });
  std::string out;
  EXPECT_EQ(scrubber.feed("<" + first + "-fedcba9876543210>", out), State::kOk);
  EXPECT_EQ(scrubber.finish(out), State::kOk);
  EXPECT_EQ(out, "<" + scramble(first + "-fedcba9876543210") + ">");
}

TEST(ScrubberProperty, WithoutANeedleEveryByteStaysAndWithOneNoNeedleIsLeft) {
  Random random(11);
  const std::vector<std::string> needles = {random.token(40), random.token(22), random.token(64)};
  const std::vector<std::string> stubs = {random.token(40), random.token(22), random.token(64)};
  const NeedleSets sets = {make_set(needles)};
  std::vector<Encoder> ways = encoders();
  ways.push_back([](std::string_view text) { return json(percent(text)); });
  for (int round = 0; round < 300; ++round) {
    std::string text = random.noise(random.below(200));
    std::size_t hidden = 0;
    for (; random.below(3) != 0 && hidden < 3; ++hidden) {
      const std::string& needle = needles[random.below(needles.size())];
      text += "|" + ways[random.below(ways.size())](needle) + "|";
      text += random.noise(random.below(100));
    }
    const std::size_t piece_max = 1 + random.below(random.below(2) != 0 ? 8 : 500);
    Scrubber scrubber(sets, [&](std::uint32_t, std::uint32_t id) { return stubs[id]; });
    std::string out;
    State state = State::kOk;
    random.cut(text, piece_max, [&](std::string_view piece) {
      if (state == State::kOk) state = scrubber.feed(piece, out);
    });
    if (state == State::kOk) state = scrubber.finish(out);
    EXPECT_EQ(scan_text(sets, out), std::nullopt) << text;
    EXPECT_LE(out.size(), text.size());
    if (state == State::kOk) EXPECT_EQ(out.size(), text.size());
    if (hidden == 0) EXPECT_EQ(out, text);
  }
}

}  // namespace
}  // namespace pons::scan
