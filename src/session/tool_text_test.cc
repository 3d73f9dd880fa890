#include "pons/session/tool_text.h"

#include <gtest/gtest.h>

#include "pons/base/text.h"

namespace pons::session {
namespace {

using End = ExecuteReport::End;

TEST(ToolText, SaysHowACommandEnded) {
  const std::vector<std::tuple<End, int, bool, std::string>> cases = {
      {End::kExit, 0, false, "[exit code 0; 5 ms]"},
      {End::kExit, 3, true, "[exit code 3; 5 ms]"},
      {End::kSignal, 9, true, "signal 9"},
      {End::kTimeout, 0, true, "timed out"},
      {End::kOutOfMemory, 0, true, "memory limit"},
      {End::kOutputLimit, 0, true, "more than is allowed"},
      {End::kInterrupted, 0, true, "may have run"}};
  for (const auto& [end, code, is_error, words] : cases) {
    const ToolText text = describe({.end = end, .code = code, .output = "out", .took_ms = 5});
    EXPECT_EQ(text.is_error, is_error) << words;
    EXPECT_TRUE(text.text.starts_with("out\n[")) << text.text;
    EXPECT_NE(text.text.find(words), std::string::npos) << text.text;
    EXPECT_FALSE(text.full);
  }
  const ToolText odd = describe({.took_ms = -5, .rolled_back = true, .note = "disk full"});
  EXPECT_EQ(odd.text, "[exit code 0; 0 ms; changes to files were taken back; disk full]");
}

TEST(ToolText, ALongOutputIsCutInTheMiddleAndKeptBeside) {
  std::string output;
  for (int i = 0; output.size() < 3 * kResultBytesMax; ++i)
    output += "line " + std::to_string(i) + "\n";
  const ToolText text = describe({.output = output});
  EXPECT_LT(text.text.size(), kResultBytesMax + 200);
  EXPECT_TRUE(text.text.starts_with("line 0\n"));
  EXPECT_NE(text.text.find("left out here"), std::string::npos);
  ASSERT_TRUE(text.full);
  EXPECT_EQ(text.full->bytes, output);
  EXPECT_EQ(text.full->digest, sha256_hex(output));
}

TEST(ToolText, ShorteningNeverCutsACharacter) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "aüあ😀";
  for (std::size_t bytes = 0; bytes < 60; ++bytes)
    EXPECT_TRUE(is_valid_utf8(shorten(text, bytes))) << bytes;
  EXPECT_EQ(shorten("short", 5), "short");
}

TEST(ToolText, WhatIsNoTextBecomesOne) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},
      {"a\x80z", "a\xEF\xBF\xBDz"},
      {"a\xE9", "a\xEF\xBF\xBD"},
      {"\xC3\xBC\xFF", "\xC3\xBC\xEF\xBF\xBD"},
      {std::string("a\0b", 3),
       "a\xEF\xBF\xBD"
       "b"},
      {"\xF0\x9F\x98", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}};  // a lone surrogate
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(printable(bytes), expected);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_TRUE(is_valid_utf8(printable(all)));
}

TEST(ToolText, SaysWhatNobodyHasAnyMore) {
  EXPECT_TRUE(describe({.output = "tail", .lost_bytes = 5'000'000})
                  .text.starts_with("[the first 4.8 MiB were not kept]\ntail"))
      << describe({.output = "tail", .lost_bytes = 5'000'000}).text;
  // Each byte becomes three: only the end of it is kept.
  const ToolText text = describe({.output = std::string(kKeptBytesMax, '\xFF')});
  ASSERT_TRUE(text.full);
  EXPECT_LE(text.full->bytes.size(), kKeptBytesMax);
  EXPECT_TRUE(text.text.starts_with("[the first ")) << text.text.substr(0, 60);
}

}  // namespace
}  // namespace pons::session
