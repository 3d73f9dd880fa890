#include "responses/free_form_input.h"

#include <gtest/gtest.h>

#include "pons/base/text.h"

namespace pons::models::responses {
namespace {

// However it is cut, the same text comes out.
std::string decode(std::string_view json) {
  FreeFormInput whole;
  const std::string text = whole.feed(json);
  FreeFormInput pieces;
  std::string joined;
  for (const char c : json) joined += pieces.feed({&c, 1});
  EXPECT_EQ(text, joined);
  EXPECT_TRUE(is_valid_utf8(text));
  return text;
}

TEST(FreeFormInputTest, TheTextComesOutAsItIsWritten) {
  EXPECT_EQ(decode(R"({"input":"plain"})"), "plain");
  EXPECT_EQ(decode(" { \"input\" : \"a\\n\\t\\\"\\\\\\/b\" }"), "a\n\t\"\\/b");
  EXPECT_EQ(decode(R"({"input":"\u00fc\u20AC\uD83D\ude00 ü"})"), "ü€😀 ü");
  EXPECT_EQ(decode(R"({"input":"cut of)"), "cut of");
}

TEST(FreeFormInputTest, HalvesOfPairsAreReplaced) {
  EXPECT_EQ(decode(R"({"input":"\ud83dx"})"), "\xEF\xBF\xBDx");
  EXPECT_EQ(decode(R"({"input":"\ud83d\n"})"), "\xEF\xBF\xBD\n");
  EXPECT_EQ(decode(R"({"input":"\ud83d"})"), "\xEF\xBF\xBD");
  EXPECT_EQ(decode(R"({"input":"\ude00\ud83d\u0041"})"),
            "\xEF\xBF\xBD\xEF\xBF\xBD"
            "A");
  EXPECT_EQ(decode(R"({"input":"\uzz"})"), "\xEF\xBF\xBDz");
}

TEST(FreeFormInputTest, OtherFormsHaveNoText) {
  for (const char* json : {R"({"inptu":"x"})", R"(["input"])", R"({"input":7})", ""}) {
    FreeFormInput input;
    EXPECT_EQ(input.feed(json), "");
    EXPECT_FALSE(input.has_begun()) << json;
  }
}

}  // namespace
}  // namespace pons::models::responses
