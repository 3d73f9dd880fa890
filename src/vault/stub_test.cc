#include "pons/vault/stub.h"

#include <gmock/gmock.h>
#include <sodium.h>

#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

const Secret& key() {
  static const Secret kKey(std::string(32, 'k'));
  return kKey;
}

std::string stub_of(std::string_view value, StubOwner owner = {"box", "session", "NAME"}) {
  const auto shape = shape_of(value);
  EXPECT_TRUE(shape) << value;
  return shape ? make_stub(*shape, key(), owner, value) : "";
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

TEST(StubTest, HasTheLengthThePrefixAndTheSeparatorsOfTheValue) {
  const std::pair<std::string, std::string> cases[] = {
      {std::string(kGithubValue), "ghp_"},
      {"github_pat_11ABCDEFG0q7ZtVfXy2LmNp_Rk8CzPq1LxDy5MbSh0FgAe9UuTo27Zx81mQ", "github_pat_"},
      {"glpat-x7Kq2mZtV-fXy2LmNp_Rk8CzPq1", "glpat-"},
      {"sk-ant-api03-q7ZtVfXy2LmNpRk8CzPq1LxDy5MbSh0FgAe9UuTo27Zx81mQpL0vTr5Ke9WbYs-AA",
       "sk-ant-api03-"},
      {"sk-proj-q7ZtVfXy2LmNpRk8CzPq1LxDy5MbSh0FgAe9UuTo27", "sk-proj-"},
      {"sk-q7ZtVfXy2LmNpRk8CzPq1LxDy5MbSh0F", "sk-"},
      {"xoxb-2304958203-5820395820394-q7ZtVfXy2LmNpRk8CzPq1LxD", "xoxb-"},
  };
  for (const auto& [value, prefix] : cases) {
    const std::string stub = stub_of(value);
    ASSERT_EQ(stub.size(), value.size());
    EXPECT_TRUE(stub.starts_with(prefix)) << stub;
    EXPECT_NE(stub, value);
    std::size_t same = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      EXPECT_EQ(is_plain(stub[i]), is_plain(value[i]));
      if (!is_plain(value[i])) EXPECT_EQ(stub[i], value[i]);
      same += i >= prefix.size() && is_plain(value[i]) && stub[i] == value[i];
    }
    EXPECT_LT(same, 8U) << "more than chance gives";
    EXPECT_GE(shape_of(value)->random_bits(), kStubBitsMin);
  }
}

TEST(StubTest, APrefixIsNotKeptWhenTooLittleRandomnessIsLeft) {
  const std::string value = "github_pat_1A2b3C4d5E6f";  // 23 characters, 12 behind the prefix
  EXPECT_FALSE(shape_of(value.substr(0, 21)));
  const std::string longer = value + "7G8h9";
  const auto shape = shape_of(longer);
  ASSERT_TRUE(shape);
  EXPECT_GE(shape->random_bits(), kStubBitsMin);
  EXPECT_FALSE(make_stub(*shape, key(), {"b", "s", "N"}).starts_with("github"));
}

TEST(StubTest, HexadecimalStaysSoOnlyWithEnoughDigits) {
  EXPECT_EQ(stub_of(kHexValue).find_first_not_of("0123456789abcdef"), std::string::npos);
  const std::string uuid = "9f3c07ab-52de-6148-c0b7-e19a4d85f263";
  EXPECT_EQ(stub_of(uuid).find_first_not_of("0123456789abcdef-"), std::string::npos);
  const auto shorter = shape_of(kHexValue.substr(0, 24));
  ASSERT_TRUE(shorter);
  EXPECT_EQ(shorter->alphabet.size(), 62U);
  EXPECT_GE(shorter->random_bits(), kStubBitsMin);
}

TEST(StubTest, DigitsStaySoOnlyWithEnoughOfThem) {
  const std::string many = "4820571936402857193640285719364028571936402";
  EXPECT_EQ(stub_of(many).find_first_not_of("0123456789"), std::string::npos);
  EXPECT_EQ(shape_of(many.substr(0, 30))->alphabet.size(), 62U);
}

TEST(StubTest, AWebTokenKeepsItsHeaderAndReadsAsOne) {
  const std::string header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
  for (const char* payload : {"eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkphbmUifQ",
                              "eyJzdWIiOiJqYW5lIn0", "eyJzdWIiOiIxMjM0NTY3ODkwIiwiYSI6MX0"}) {
    const std::string value =
        fmt::format("{}.{}.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U", header, payload);
    const std::string stub = stub_of(value);
    ASSERT_EQ(stub.size(), value.size());
    const auto parts = split(stub, '.');
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0], header);
    for (const std::size_t i : {1U, 2U}) {
      std::string bytes(parts[i].size(), '\0');
      std::size_t size = 0;
      ASSERT_EQ(sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                  parts[i].data(), parts[i].size(), nullptr, &size, nullptr,
                                  sodium_base64_VARIANT_URLSAFE_NO_PADDING),
                0);
      bytes.resize(size);
      if (i == 1) EXPECT_TRUE(parse_json(bytes)) << bytes;
    }
    EXPECT_EQ(stub.find(payload), std::string::npos);
    EXPECT_EQ(stub.find("dozjgN"), std::string::npos);
  }
}

TEST(StubTest, IsTheSameForTheSameOwnerAndAnotherForEveryOther) {
  const std::string stub = stub_of(kGithubValue);
  EXPECT_EQ(stub_of(kGithubValue), stub);
  EXPECT_NE(stub_of(kGithubValue, {"box2", "session", "NAME"}), stub);
  EXPECT_NE(stub_of(kGithubValue, {"box", "session2", "NAME"}), stub);
  EXPECT_NE(stub_of(kGithubValue, {"box", "session", "NAME2"}), stub);
  EXPECT_NE(stub_of(kGithubValue, {"boxs", "ession", "NAME"}), stub);
  EXPECT_NE(stub_of(kGithubValue, {"box", "", "NAME"}), stub_of(kGithubValue, {"", "box", "NAME"}));
  EXPECT_NE(
      make_stub(*shape_of(kGithubValue), Secret(std::string(32, 'x')), {"box", "session", "NAME"}),
      stub);
}

TEST(StubTest, DoesNotDependOnTheValueBeyondItsShape) {
  EXPECT_EQ(stub_of(kGithubValue), stub_of(kOtherValue));
}

TEST(StubTest, IsNeverTheValueItself) {
  const auto shape = *shape_of(kGithubValue);
  const StubOwner owner{"box", "session", "NAME"};
  const std::string first = make_stub(shape, key(), owner);
  EXPECT_NE(make_stub(shape, key(), owner, first), first);
}

TEST(StubTest, ManyStubsAreAllDifferentAndUseTheirAlphabetEvenly) {
  const auto shape = *shape_of(kGithubValue);
  std::set<std::string> seen;
  std::array<double, 256> counts{};
  constexpr int kStubs = 4000;
  for (int i = 0; i < kStubs; ++i) {
    const std::string stub = make_stub(shape, key(), {fmt::format("box{}", i), "s", "N"});
    EXPECT_TRUE(seen.insert(stub).second);
    for (const char c : stub.substr(4)) ++counts[static_cast<unsigned char>(c)];
  }
  // Chi-squared with 61 degrees of freedom; the draw is fixed by the key, so this cannot flicker.
  const double expected = kStubs * 36 / 62.0;
  double distance = 0;
  for (const char c : shape.alphabet) {
    const double difference = counts[static_cast<unsigned char>(c)] - expected;
    distance += difference * difference / expected;
  }
  EXPECT_LT(distance, 120);
}

TEST(StubTest, ShapesSurviveTheirJsonAndSenselessOnesAreRefused) {
  for (const std::string_view value : {kGithubValue, kHexValue}) {
    const auto shape = *shape_of(value);
    EXPECT_EQ(*parse_shape(*parse_json(dump_json(to_json(shape)))), shape);
  }
  for (
      const char* text :
      {R"({})", R"([])", R"({"style":"odd","pattern":"","alphabet":"ab"})",
       R"({"style":"plain","pattern":"fixed-and-nothing-random","alphabet":"0123456789"})",
       R"({"style":"web_token","pattern":"a.b.c","alphabet":"ab"})",
       R"({"style":"web_token","pattern":"abc","alphabet":"ab"})",
       R"({"style":"web_token","pattern":"abcdefghijklmnop.abcdefghijklmnopabcdefghijklmnop.abcdefghijklmnopa",)"
       R"("alphabet":"ab"})"})
    EXPECT_FALSE(parse_shape(*parse_json(text))) << text;
}

TEST(StubTest, WhatStandsInHasTheShapeOfTheValue) {
  EXPECT_EQ(stand_in("ghp_abc12", "ghp_xyz99"), "ghp_abc12") << "the stub itself";
  EXPECT_EQ(stand_in("ghp_abc12", "xyz"), "ghp");
  EXPECT_EQ(stand_in("abcde", "vwxyzvwxyzvw"), "abcdeabcdeab");
  EXPECT_EQ(stand_in("ghp_abc12", "a.b-c/d_e=="), "g.h-p/a_b==");
  EXPECT_EQ(stand_in("abcde", ""), "");
}

// ---- which values have stubs at all

TEST(ValueTest, WhatServicesGiveOutIsAccepted) {
  for (const std::string_view value :
       {kGithubValue, kOtherValue, kHexValue, std::string_view("sk_test_51HqLyjWDarjtT1zdp7dcAbC"),
        std::string_view("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzkKEYab"),
        std::string_view("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"),
        std::string_view("kqzvxwjpbmtgyfhdnclrsuaoie")})
    EXPECT_TRUE(check_value(value)) << value << ": " << check_value(value).error().describe();
}

TEST(ValueTest, RandomValuesAreAlmostNeverRefused) {
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes(16, '\0');
    random_bytes(bytes.data(), bytes.size());
    refused += !check_value(to_hex(bytes)) + !check_value(random_text(26));
  }
  EXPECT_LE(refused, 1);
}

TEST(ValueTest, WhatIsShortGuessableOrNotPlainTextIsRefusedWithItsReason) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "letters and digits"},
      {"admin", "letters and digits"},
      {"q7ZtVfXy2LmNpRk8CzPq1", "letters and digits"},
      {"-----------------------------------", "letters and digits"},
      {std::string(40, 'a'), "repeats"},
      {"abc123abc123abc123abc123abc123", "repeats"},
      {"adminadminadminadminadminadmin", "repeats"},
      {"abcdefghijklmnopqrstuvwxyz", "sequence"},
      {"01234567899876543210012345678998", "sequence"},
      {"your-api-token-goes-here-please", "placeholder"},
      {"Password1234Password5678ab", "placeholder"},
      {"thisisaverylongpassphraseofwords", "words"},
      {"several-english-nouns-and-nothing-more", "words"},
      {"akzkazzakakkzaazkzakkzazakzkka", "few different"},
      {std::string(kGithubValue) + "\n", "printable"},
      {"ghp_Zx81mQpL0vTr5Ke9\tWbYs7NcGd2HjUa", "printable"},
      {" " + std::string(kGithubValue), "space"},
      {std::string(kGithubValue) + " ", "space"},
      {std::string(kGithubValue) + "\xC3\xA4", "printable"},
      {std::string(kGithubValue) + std::string(1, '\0'), "printable"},
      {random_text(8193), "8 KiB"},
  };
  for (const auto& [value, reason] : cases) {
    const auto checked = check_value(value);
    ASSERT_FALSE(checked) << value;
    EXPECT_THAT(checked.error().message, ::testing::HasSubstr(reason)) << value;
    if (value.size() > 3)
      EXPECT_THAT(checked.error().message, ::testing::Not(::testing::HasSubstr(value)));
  }
}

}  // namespace
}  // namespace pons::vault
