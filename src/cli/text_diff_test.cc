#include "text_diff.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

namespace pons::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string numbers(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += fmt::format("{}\n", i);
  return text;
}

TEST(TextDiff, OfTheSameIsEmpty) {
  EXPECT_EQ(unified_diff("", ""), "");
  EXPECT_EQ(unified_diff("a\nb\n", "a\nb\n"), "");
}

TEST(TextDiff, ShowsWhatIsAroundEachChangeAndWhereItIs) {
  EXPECT_EQ(
      unified_diff(numbers(1, 30), numbers(1, 9) + "ten\n" + numbers(11, 24) + numbers(26, 30)),
      "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
      "@@ -22,7 +22,6 @@\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n");
}

TEST(TextDiff, ChangesThatAreNearAreOnePiece) {
  EXPECT_EQ(unified_diff("a\n1\n2\nb\n", "A\n1\n2\nB\n"),
            "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n-b\n+B\n");
}

TEST(TextDiff, LinesComeAndGo) {
  EXPECT_EQ(unified_diff("", "new\n"), "@@ -0,0 +1,1 @@\n+new\n");
  EXPECT_EQ(unified_diff("old\n", ""), "@@ -1,1 +0,0 @@\n-old\n");
  EXPECT_EQ(unified_diff("a\nb\nc\n", "a\nc\nb\nc\n"), "@@ -1,3 +1,4 @@\n a\n+c\n b\n c\n");
}

TEST(TextDiff, ALineFeedThatIsMissingIsADifference) {
  EXPECT_EQ(unified_diff("a\n", "a"), "@@ -1,1 +1,1 @@\n-a\n+a\n\\ No line feed at the end\n");
}

TEST(TextDiff, IsNotLongerThanAllowed) {
  const std::string text = unified_diff(numbers(1, 100), numbers(201, 300), {.lines_max = 5});
  EXPECT_EQ(text, "@@ -1,100 +1,100 @@\n-1\n-2\n-3\n-4\n-5\n[… 195 more lines differ]\n");
  const std::string wide = unified_diff(std::string(10'000, 'a'), "b\n", {.line_bytes_max = 10});
  EXPECT_THAT(wide, HasSubstr("-aaaaaaaaaa [… 9.8 KiB more]\n"));
  EXPECT_THAT(unified_diff("\xC3\xA4\xC3\xA4\n", "b\n", {.line_bytes_max = 3}),
              HasSubstr("-\xC3\xA4 ["))
      << "no half character";
}

TEST(TextDiff, OfHugeTextsTheFirstDifferenceIsShown) {
  const std::string common = numbers(1, 1'000'000);
  const std::string text =
      unified_diff(common + "a\n" + common, common + "b\n" + common + "c\n", {.lines_max = 8});
  EXPECT_THAT(text,
              StartsWith("@@ -999998,7 +999998,7 @@\n 999998\n 999999\n 1000000\n-a\n+b\n 1\n"));
  EXPECT_THAT(text, EndsWith("nothing was compared]\n"));
  // Too many lines for the table: all of them count.
  const std::string other = unified_diff(numbers(1, 5'000), numbers(2, 6'000));
  EXPECT_THAT(other, HasSubstr("-1\n-2\n"));
  EXPECT_THAT(other, Not(HasSubstr("nothing was compared")));
}

}  // namespace
}  // namespace pons::cli
