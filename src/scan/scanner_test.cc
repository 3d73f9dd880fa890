#include "pons/scan/scanner.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "scan_fixture.h"

namespace pons::scan {
namespace {

using namespace fixture;

const std::string kSecret = "ghp_Z8q>?1fKx/0+aVtR3mWcYb7Lh2Nd4Pe6Sg9Uj";
const std::string kOther = "sk-proj-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

class ScannerTest : public testing::Test {
 protected:
  std::optional<Finding> scan(std::string_view text) { return scan_text(sets_, text); }

  // Found in the middle of text, at the borders, and byte by byte.
  void expect_found(std::string_view form, Finding expected) {
    SCOPED_TRACE(form);
    for (const std::string& text :
         {std::string(form), "<<" + std::string(form) + ">>", "\n" + std::string(form) + "\n"}) {
      EXPECT_EQ(scan(text), expected);
      EXPECT_EQ(scan_pieces(sets_, text, 1, random_), expected);
    }
  }

  Random random_{7};
  NeedleSets sets_ = {make_set({kOther, kSecret})};
};

Finding found(Encoding encoding, View outer = View::kRaw, View inner = View::kRaw) {
  return {.set = 0, .id = 1, .encoding = encoding, .outer = outer, .inner = inner};
}

TEST_F(ScannerTest, EachEncodingIsFound) {
  expect_found(kSecret, found(Encoding::kPlain));
  expect_found(hex(kSecret), found(Encoding::kHex));
  expect_found(upper_hex(kSecret), found(Encoding::kHex));
  expect_found(utf16_le(kSecret), found(Encoding::kUtf16));
  expect_found(utf16_be(kSecret), found(Encoding::kUtf16));
}

TEST_F(ScannerTest, Base64AndBase32AreFoundAtEachAlignmentWithAnythingAround) {
  for (std::size_t before = 0; before < 12; ++before) {
    for (std::size_t after = 0; after < 5; ++after) {
      const std::string text =
          random_.from("\xff\x01Az~", before) + kSecret + random_.from("\xff\x01Az~", after);
      EXPECT_EQ(scan(base64(text)), found(Encoding::kBase64));
      EXPECT_EQ(scan(base64_url(text))->id, 1U);
      EXPECT_EQ(scan(base32(text)), found(Encoding::kBase32));
      EXPECT_EQ(scan(lower_base32(text)), found(Encoding::kBase32));
    }
  }
}

TEST_F(ScannerTest, EachViewIsFound) {
  expect_found(percent(kSecret), found(Encoding::kPlain, View::kPercent));
  expect_found(escape_all(kSecret, "\\x"), found(Encoding::kPlain, View::kJson));
  expect_found(escape_all(kSecret, "\\u{", "}"), found(Encoding::kPlain, View::kJson));
  expect_found(json(kSecret), found(Encoding::kPlain, View::kJson));
  expect_found(html(kSecret), found(Encoding::kPlain, View::kHtml));
  expect_found(html_decimal(kSecret), found(Encoding::kPlain, View::kHtml));
  expect_found(quoted_printable(kSecret), found(Encoding::kPlain, View::kQuotedPrintable));
  expect_found(every(kSecret, 7, "=\r\n"), found(Encoding::kPlain, View::kQuotedPrintable));
  for (const char* between : {":", "-", " "}) {
    expect_found(every(hex(kSecret), 2, between), found(Encoding::kHex, View::kSeparators));
    expect_found(every(upper_hex(kSecret), 2, between), found(Encoding::kHex, View::kSeparators));
  }
  for (const char* between : {"\n", "\r\n", "\n    ", "\r\n\t"}) {
    for (const std::size_t width : {1, 4, 19, 76}) {
      if (width > 50) continue;
      expect_found(every(base64(kSecret), width, between), found(Encoding::kBase64, View::kLines));
      expect_found(every(base32(kSecret), width, between), found(Encoding::kBase32, View::kLines));
    }
  }
}

TEST_F(ScannerTest, OneEncodedCharacterAnywhereDoesNotHide) {
  for (std::size_t at = 0; at < kSecret.size(); ++at) {
    const auto with = [&](const std::string& middle) {
      return kSecret.substr(0, at) + middle + kSecret.substr(at + 1);
    };
    const std::string one = kSecret.substr(at, 1);
    expect_found(with(percent(one)), found(Encoding::kPlain, View::kPercent));
    expect_found(with(json(one)), found(Encoding::kPlain, View::kJson));
    expect_found(with(html(one)), found(Encoding::kPlain, View::kHtml));
    expect_found(with(quoted_printable(one)), found(Encoding::kPlain, View::kQuotedPrintable));
  }
}

TEST_F(ScannerTest, EncodingsWithinViewsAreFound) {
  expect_found(percent(base64(kSecret)), found(Encoding::kBase64, View::kPercent));
  expect_found(json(hex(kSecret)), found(Encoding::kHex, View::kJson));
  expect_found(percent(utf16_le(kSecret)), found(Encoding::kUtf16, View::kPercent));
}

TEST_F(ScannerTest, ViewsWithinViewsAreFound) {
  using Encode = std::function<std::string(std::string_view)>;
  const std::vector<std::pair<View, Encode>> escapes = {
      {View::kPercent, percent},
      {View::kJson, json},
      {View::kHtml, html},
      {View::kQuotedPrintable, quoted_printable},
  };
  for (const auto& [outer, encode_outer] : escapes) {
    for (const auto& [inner, encode_inner] : escapes) {
      expect_found(encode_outer(encode_inner(kSecret)), found(Encoding::kPlain, outer, inner));
    }
    expect_found(encode_outer(every(base64(kSecret), 16, "\n")),
                 found(Encoding::kBase64, outer, View::kLines));
    expect_found(encode_outer(every(hex(kSecret), 2, ":")),
                 found(Encoding::kHex, outer, View::kSeparators));
  }
  expect_found(every(base64(kSecret), 16, "\\n"),
               found(Encoding::kBase64, View::kJson, View::kLines));
}

TEST_F(ScannerTest, FoundBehindAnyAmountOfOtherBytes) {
  const std::string filler = std::string(3 << 20, 'a') + random_.noise(30000);
  EXPECT_EQ(scan(filler), std::nullopt);
  EXPECT_EQ(scan(filler + kSecret), found(Encoding::kPlain));
  EXPECT_EQ(scan(filler + " " + percent(kSecret)), found(Encoding::kPlain, View::kPercent));
  EXPECT_EQ(scan(filler + " " + every(hex(kSecret), 2, ":")),
            found(Encoding::kHex, View::kSeparators));
}

TEST_F(ScannerTest, NeedlesThatAreNotWholeAreNotFound) {
  for (std::size_t at = 0; at < kSecret.size(); ++at) {
    std::string damaged = kSecret;
    damaged[at] = '!';
    for (const std::string& text : {damaged, percent(damaged), json(damaged), hex(damaged),
                                    every(hex(damaged), 2, ":"), kSecret.substr(at + 1)}) {
      EXPECT_EQ(scan(text), std::nullopt) << text;
    }
  }
}

TEST_F(ScannerTest, TheSetThatMatchesIsNamed) {
  sets_.push_back(make_set({"stub-0123456789abcdefghijklmnop"}));
  EXPECT_EQ(scan("x stub-0123456789abcdefghijklmnop")->set, 1U);
  EXPECT_EQ(describe(*scan(percent(json(kSecret)))), "plain in json in percent");
}

TEST_F(ScannerTest, TheFirstFindingStays) {
  Scanner scanner(sets_);
  EXPECT_FALSE(scanner.feed("nothing "));
  EXPECT_EQ(scanner.feed(hex(kSecret) + kSecret), found(Encoding::kHex));
  EXPECT_EQ(scanner.feed("nothing"), found(Encoding::kHex));
  EXPECT_EQ(scanner.finish(), found(Encoding::kHex));
}

TEST_F(ScannerTest, AScannerWithoutSetsFindsNothing) {
  EXPECT_EQ(scan_text({}, kSecret), std::nullopt);
}

TEST(ScannerProperty, TheOutcomeDoesNotDependOnWhereTheStreamIsCut) {
  Random random(99);
  const std::vector<std::string> needles = {random.token(40), random.token(22), random.token(90)};
  const NeedleSets sets = {make_set(needles), make_set({random.token(30)})};
  const std::vector<Encoder>& ways = encoders();
  for (int round = 0; round < 150; ++round) {
    std::string text = random.noise(random.below(300));
    std::size_t hidden = 0;
    for (; random.below(3) != 0 && hidden < 3; ++hidden) {
      const std::string& needle = needles[random.below(needles.size())];
      const std::string once = ways[random.below(ways.size())](needle);
      // A blank keeps what comes before from becoming part of the encoding.
      text += "|" + (random.below(2) != 0 ? once : percent(once)) + "|";
      text += random.noise(random.below(200));
    }
    const auto whole = scan_text(sets, text);
    EXPECT_EQ(whole.has_value(), hidden > 0) << text;
    for (const std::size_t piece_max : {1, 3, 17, 400}) {
      EXPECT_EQ(scan_pieces(sets, text, piece_max, random), whole) << text;
    }
  }
}

TEST(NeedleSet, RefusesWhatItCannotSearchFor) {
  const auto create = [](const std::vector<std::string>& texts) {
    std::vector<Needle> needles;
    for (const std::string& text : texts) needles.push_back({.id = 0, .text = text});
    return NeedleSet::create(needles);
  };
  EXPECT_EQ(create({}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(create({"fifteen bytes.."}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(create({std::string(kNeedleBytesMax + 1, 'x')}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(create(std::vector(kNeedlesMax + 1, kSecret)).error().code, ErrorCode::kLimit);
  EXPECT_THAT(create({"fifteen bytes.."}).error().describe(),
              testing::Not(testing::HasSubstr("fifteen")));
  EXPECT_TRUE(create({kSecret, kSecret, "sixteen bytes..."}));
  EXPECT_TRUE(create({std::string(kNeedleBytesMax, 'x')}));
}

TEST(NeedleSet, NeedlesMayShareTheirEndsOrContainEachOther) {
  const std::string inner = "inner-0123456789abcdef";
  const NeedleSets sets = {make_set({"A" + inner, inner, "B" + inner, inner + "C"})};
  EXPECT_EQ(scan_text(sets, "x" + inner)->id, 1U);
  EXPECT_EQ(scan_text(sets, hex("A" + inner))->encoding, Encoding::kHex);
}

TEST(NeedleSet, TheLongestNeedlesAreFoundInEveryForm) {
  Random random(5);
  const std::string needle = random.token(kNeedleBytesMax);
  const NeedleSets sets = {make_set({needle})};
  for (const std::string& text :
       {needle, base64("x" + needle), hex(needle), percent(needle), json(percent(needle)),
        every(hex(needle), 2, " "), every(base64(needle), 76, "\r\n")}) {
    EXPECT_TRUE(scan_pieces(sets, "ab" + text, 1500, random));
  }
}

}  // namespace
}  // namespace pons::scan
