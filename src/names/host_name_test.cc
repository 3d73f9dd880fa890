#include "pons/names/host_name.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace pons::names {
namespace {

using std::string_literals::operator""s;

TEST(HostNameTest, CaseAndTrailingDotMakeNoDifference) {
  const auto plain = HostName::parse("api.github.com");
  ASSERT_TRUE(plain);
  for (const char* same : {"API.GitHub.Com", "api.github.com.", "API.GITHUB.COM."})
    EXPECT_EQ(HostName::parse(same).value(), *plain) << same;
  EXPECT_EQ(plain->text(), "api.github.com");
  EXPECT_EQ(plain->first_label(), "api");
  EXPECT_EQ(plain->parent(), "github.com");
}

TEST(HostNameTest, NoSpellingOfAnAddressBecomesAName) {
  for (const char* address :
       {"1.2.3.4", "1.2.3.4.", "0x7f.1", "017700000001", "2130706433", "0x7f000001", "127.1",
        "127.0.0.0x1", "0x", "example.0x1f", "[::1]", "::1", "::ffff:127.0.0.1", "fe80::1%eth0",
        "[fe80::1%25eth0]", "example.123"})
    EXPECT_FALSE(HostName::parse(address)) << address;
  EXPECT_TRUE(HostName::parse("1.2.3.4.nip.io"));
  EXPECT_TRUE(HostName::parse("0xcafe.example"));
}

TEST(HostNameTest, BytesThatSomeReadersCutOrIgnoreAreRefused) {
  for (const std::string& name :
       {"evil.com\0.api.github.com"s, "api.github.com\0"s, "api.github.com\r\n"s, "a b.com"s,
        "a\tb.com"s, "\x7f.com"s, "a/b.com"s, "a\\b.com"s, "a@b.com"s, "a:443"s, "a%2eb.com"s,
        "a,b.com"s, "*.example.com"s, "a#b.com"s, "a?b.com"s, " api.github.com"s})
    EXPECT_FALSE(HostName::parse(name)) << name;
}

TEST(HostNameTest, InternationalNamesAreTakenInAsciiOnly) {
  EXPECT_TRUE(HostName::parse("xn--bcher-kva.example"));
  for (const char* name :
       {"bücher.example", "аpi.github.com", "api。github.com", "ａpi.github.com", "\xff\xfe.com"}) {
    const auto result = HostName::parse(name);
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("xn--"), std::string::npos);
  }
}

TEST(HostNameTest, LabelsAndLengthsAreBounded) {
  const std::string label(63, 'a');
  EXPECT_TRUE(HostName::parse(label + ".com"));
  EXPECT_FALSE(HostName::parse(label + "a.com"));
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  EXPECT_TRUE(HostName::parse(longest));
  EXPECT_TRUE(HostName::parse(longest + "."));
  EXPECT_FALSE(HostName::parse(longest + "b"));
  EXPECT_FALSE(HostName::parse(std::string(1 << 20, 'a')));
  for (const char* name : {"", ".", "..", ".com", "a..b", "a.com..", "-a.com", "a-.com"})
    EXPECT_FALSE(HostName::parse(name)) << name;
}

TEST(HostNameTest, UnderscoreOnlyLeadsALabel) {
  EXPECT_TRUE(HostName::parse("_dmarc.example.com"));
  EXPECT_FALSE(HostName::parse("a_b.example.com"));
}

TEST(HostNameTest, BelowMeansOnALabelBorder) {
  const auto is_below = [](const char* name) {
    return HostName::parse(name)->is_below("example.com");
  };
  EXPECT_TRUE(is_below("a.example.com"));
  EXPECT_TRUE(is_below("a.b.example.com"));
  EXPECT_FALSE(is_below("example.com"));
  EXPECT_FALSE(is_below("evil-example.com"));
  EXPECT_FALSE(is_below("example.com.evil.com"));
}

TEST(HostNameTest, NamesAreKeys) {
  std::unordered_set<HostName> names{*HostName::parse("A.example"), *HostName::parse("a.example.")};
  EXPECT_EQ(names.size(), 1U);
}

}  // namespace
}  // namespace pons::names
