#include "access_wish.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pons::egress {
namespace {

std::string with_reason(std::string_view reason) {
  return dump_json({{"host", "api.example.com"}, {"reason", reason}});
}

TEST(AccessWishTest, AWishSaysHostAndReasonAndWhatElseItLikes) {
  const auto wish = parse_access_wish(
      std::string_view(R"({"host":"API.Example.com.","port":8443,"methods":["POST","GET","GET"],)"
                       R"("reason":" to read the weather, für Ümläute "})"));
  ASSERT_TRUE(wish) << wish.error().describe();
  EXPECT_EQ(to_text(wish->host), "api.example.com");
  EXPECT_EQ(wish->port, 8443);
  EXPECT_EQ(wish->methods, (std::vector<std::string>{"GET", "POST"}));
  EXPECT_EQ(wish->reason, "to read the weather, für Ümläute");
  const auto again = read_access_wish(to_json(*wish));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->asks_same_as(*wish));
}

TEST(AccessWishTest, WhatIsNotAWishIsRefused) {
  for (const char* text : {"",
                           "[]",
                           "7",
                           "{}",
                           R"({"host":"a.example"})",
                           R"({"reason":"x"})",
                           R"({"host":"a.example","reason":""})",
                           R"({"host":"a.example","reason":"  "})",
                           R"({"host":7,"reason":"x"})",
                           R"({"host":"a b","reason":"x"})",
                           R"({"host":"a.example","reason":["x"]})",
                           R"({"host":"a.example","reason":"x","more":1})",
                           R"({"host":"a.example","reason":"x","port":0})",
                           R"({"host":"a.example","reason":"x","port":65536})",
                           R"({"host":"a.example","reason":"x","port":-1})",
                           R"({"host":"a.example","reason":"x","port":"443"})",
                           R"({"host":"a.example","reason":"x","methods":[]})",
                           R"({"host":"a.example","reason":"x","methods":["get"]})",
                           R"({"host":"a.example","reason":"x","methods":"GET"})",
                           R"({"host":"a.example","host":"b.example","reason":"x"})",
                           R"({"host":"tools.pons.internal","reason":"x"})",
                           R"({"host":"pons.internal","reason":"x"})"})
    EXPECT_FALSE(parse_access_wish(std::string_view(text))) << text;
}

TEST(AccessWishTest, AReasonIsAtMost500BytesOfVisibleText) {
  EXPECT_TRUE(parse_access_wish(with_reason(std::string(500, 'x'))));
  EXPECT_FALSE(parse_access_wish(with_reason(std::string(501, 'x'))));
  EXPECT_TRUE(parse_access_wish(with_reason("日本語 and 🙂")));
  // Line breaks, escapes, C1 controls, zero width, right-to-left override, tags.
  for (const char* hidden : {"a\nb", "a\rb", "\x1b[2J", "\x7f", "\u0085", "\u200b", "\u202e",
                             "\u2066", "\u2028", "\ufeff", "\U000E0041"})
    EXPECT_FALSE(parse_access_wish(with_reason(fmt::format("x{}y", hidden))));
}

}  // namespace
}  // namespace pons::egress
