#include "escapes.h"

#include <string>

#include <gmock/gmock.h>

namespace pons::scan {
namespace {

using State = Escape::State;

void expect_reads(View view, std::string_view sequence, std::string_view decoded) {
  SCOPED_TRACE(sequence);
  const Escape escape = read_escape(view, std::string(sequence) + "41;");
  EXPECT_EQ(escape.state, State::kEscape);
  EXPECT_EQ(escape.raw_bytes, sequence.size());
  EXPECT_EQ(escape.decoded(), decoded);
  for (std::size_t length = 1; length < sequence.size(); ++length) {
    EXPECT_EQ(read_escape(view, sequence.substr(0, length)).state, State::kNeedMore) << length;
  }
}

TEST(Escapes, EachSequenceStandsForItsCharacterAndUnfinishedOnesNeedMore) {
  expect_reads(View::kPercent, "%4a", "J");
  expect_reads(View::kPercent, "%FF", "\xff");
  expect_reads(View::kJson, "\\u0041", "A");
  expect_reads(View::kJson, "\\u00e9", "\xc3\xa9");
  expect_reads(View::kJson, "\\u{1F600}", "\xf0\x9f\x98\x80");
  expect_reads(View::kJson, "\\x41", "A");
  expect_reads(View::kJson, "\\/", "/");
  expect_reads(View::kJson, "\\\\", "\\");
  expect_reads(View::kHtml, "&#65;", "A");
  expect_reads(View::kHtml, "&#x0041;", "A");
  expect_reads(View::kHtml, "&amp;", "&");
  expect_reads(View::kHtml, "&NewLine;", "\n");
  expect_reads(View::kQuotedPrintable, "=4A", "J");
  expect_reads(View::kQuotedPrintable, "=\r\n", "");
  expect_reads(View::kQuotedPrintable, "=\n", "");
}

TEST(Escapes, WhatLooksLikeASequenceAndIsNoneIsPlainText) {
  for (const auto& [view, text] :
       std::initializer_list<std::pair<View, std::string_view>>{{View::kPercent, "%4g"},
                                                                {View::kPercent, "%%41"},
                                                                {View::kJson, "\\q"},
                                                                {View::kJson, "\\u00g"},
                                                                {View::kJson, "\\u{}"},
                                                                {View::kJson, "\\u{110000}"},
                                                                {View::kHtml, "& "},
                                                                {View::kHtml, "&#;"},
                                                                {View::kHtml, "&#xfffffff;"},
                                                                {View::kHtml, "&ampx"},
                                                                {View::kHtml, "&#65 "},
                                                                {View::kHtml, "&#00000000000065;"},
                                                                {View::kQuotedPrintable, "=\rx"},
                                                                {View::kQuotedPrintable, "=="}}) {
    EXPECT_EQ(read_escape(view, text).state, State::kNone) << text;
  }
}

TEST(Escapes, RewritingKeepsFormAndLength) {
  const auto rewritten = [](View view, std::string sequence, char byte) {
    rewrite_escape(view, sequence, byte);
    return sequence;
  };
  EXPECT_EQ(rewritten(View::kPercent, "%4F", 'k'), "%6B");
  EXPECT_EQ(rewritten(View::kJson, "\\u0041", 'b'), "\\u0062");
  EXPECT_EQ(rewritten(View::kJson, "\\u{41}", 'b'), "\\u{62}");
  EXPECT_EQ(rewritten(View::kJson, "\\/", 'b'), "bb");
  EXPECT_EQ(rewritten(View::kHtml, "&#100;", 'A'), "&#065;");
  EXPECT_EQ(rewritten(View::kHtml, "&#65;", 'd'), "&#48;");
  EXPECT_EQ(rewritten(View::kHtml, "&plus;", 'd'), "dddddd");
  EXPECT_EQ(rewritten(View::kQuotedPrintable, "=41", 'b'), "=62");
}

}  // namespace
}  // namespace pons::scan
