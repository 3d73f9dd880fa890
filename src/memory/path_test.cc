#include "pons/memory/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "nfc.h"

namespace pons::memory {
namespace {

TEST(Path, AFileShapedPathIsTaken) {
  for (const std::string path : {"/a", "/a/b.md", "/A b/c\"d<e>", "/.hidden", "/a/...",
                                 "/caf\u00e9", "/\uac00/\u65e5\u672c", "/a%2e/b", "/\U0001F600"})
    EXPECT_TRUE(check_path(path)) << path;
  std::string deep;
  for (int i = 0; i < 20; ++i) deep += "/s";
  EXPECT_TRUE(check_path(deep));
  EXPECT_FALSE(check_path(deep + "/s"));
  EXPECT_TRUE(check_path("/" + std::string(1023, 'a')));
  EXPECT_FALSE(check_path("/" + std::string(1024, 'a')));
}

TEST(Path, WhatIsNoPathOrLooksLikeAnotherIsRefused) {
  using namespace std::string_literals;
  for (const std::string& path : {""s,
                                  "a"s,
                                  "/"s,
                                  "//"s,
                                  "/a/"s,
                                  "/a//b"s,
                                  "/."s,
                                  "/a/.."s,
                                  "/../a"s,
                                  "/a\nb"s,
                                  "/a\0b"s,
                                  "/a\x7f"s,
                                  "/a\xc2\x85"s,
                                  "/a\u200bb"s,
                                  "/a\u202eb"s,
                                  "/a\ufeff"s,
                                  "/a\u2028"s,
                                  "/a\u2029"s,
                                  "/a\u00ad"s,
                                  "/cafe\u0301"s,
                                  "/\u1100\u1161"s,
                                  "/\u212b"s,
                                  "/\u0344"s,
                                  "/a\xff"s,
                                  "/\xed\xa0\x80"s,
                                  "/a\xc0\xaf"s}) {
    const auto checked = check_path(path);
    ASSERT_FALSE(checked) << path;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_GT(checked.error().message.size(), 10U);
  }
}

TEST(Path, APrefixEndsWithASlash) {
  for (const char* prefix : {"/", "/a/", "/a/b/"}) EXPECT_TRUE(check_prefix(prefix)) << prefix;
  for (const char* prefix : {"", "/a", "a/", "//", "/../", "/a//"})
    EXPECT_FALSE(check_prefix(prefix)) << prefix;
}

TEST(Path, NormalFormCIsWhatUnicodeSaysItIs) {
  for (const char32_t* text :
       {U"abc", U"\u00e9", U"\u0301", U"x\u0301", U"\u1ec7", U"\uac00", U"\uac01", U"\uac01\u11a8",
        U"\u0915\u093c", U"q\u0323\u0307", U"\u1e69", U"a\u0378", U"\u0301\u0300"})
    EXPECT_TRUE(is_nfc(text));
  for (const char32_t* text : {U"e\u0301", U"\u0340", U"\u2126", U"\u1100\u1161", U"\uac00\u11a8",
                               U"\u0958", U"q\u0307\u0323", U"s\u0323\u0307", U"\u1ebf\u0323",
                               U"\u00e2\u0323", U"\u0344", U"\u1e63\u0307", U"\U0001D15E"})
    EXPECT_FALSE(is_nfc(text));
}

TEST(Path, StoresAreMountedUnderPlainNames) {
  EXPECT_EQ(mount_slug("My Notes"), "my-notes");
  EXPECT_EQ(mount_slug("a__b//C9"), "a-b-c9");
}

// ---- what holds for any two paths

class AnyPaths : public testing::Test {
 protected:
  std::string path() {
    static constexpr std::string_view kSegments[] = {"a", "b", "a0", "a.", "a-", "A", "\u00e9"};
    std::string text;
    for (std::size_t i = 0, n = 1 + random_() % 4; i < n; ++i)
      text += "/" + std::string(kSegments[random_() % std::size(kSegments)]);
    return text;
  }
  std::mt19937 random_{7};
};

TEST_F(AnyPaths, OverlapIsBeingAFolderOfTheOtherOrTheSame) {
  for (int i = 0; i < 20'000; ++i) {
    const std::string one = path();
    const std::string other = path();
    ASSERT_TRUE(check_path(one)) << one;
    const auto above = folders_and_itself(other);
    const bool is_above = std::ranges::find(above, one) != above.end();
    const PathInterval below = below_folder(one);
    const bool is_below = other >= below.first && other < below.end;
    ASSERT_EQ(is_below, other.starts_with(one + "/")) << one << " " << other;
    const auto above_one = folders_and_itself(one);
    const bool is_folder = std::ranges::find(above_one, other) != above_one.end();
    ASSERT_EQ(overlap(one, other), is_above || is_folder) << one << " " << other;
    ASSERT_EQ(overlap(one, other), is_below || is_folder) << one << " " << other;
    ASSERT_EQ(overlap(one, other), overlap(other, one));
    ASSERT_TRUE(overlap(one, one));
    if (one < other) {
      ASSERT_LE(after_path(one), other);
    }
  }
}

}  // namespace
}  // namespace pons::memory
