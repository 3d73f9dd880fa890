#include "pons/names/ip_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace pons::names {
namespace {

using std::string_literals::operator""s;

AddressClass class_of(const char* text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address ? classify(*address) : AddressClass::kPublic;
}

TEST(IpAddressTest, OnlyTheStrictFormsAreRead) {
  for (const char* text : {"1.2.3.4", "::", "::1", "2001:db8::1", "::ffff:1.2.3.4"}) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->to_text(), text);
  }
  for (const std::string& text :
       {"127.1"s, "0177.0.0.1"s, "01.2.3.4"s, "0x7f.0.0.1"s, "2130706433"s, "1.2.3.4 "s,
        " 1.2.3.4"s, "1.2.3.4."s, "1.2.3"s, "1.2.3.256"s, "[::1]"s, "fe80::1%eth0"s, "::1%0"s,
        "1.2.3.4\0"s, "1.2.3.4/8"s, ""s, "1::2::3"s, ":::"s, std::string(4096, ':')})
    EXPECT_FALSE(IpAddress::parse(text)) << text;
}

TEST(IpAddressTest, SocketAddressesRoundTrip) {
  for (const char* text : {"192.0.2.7", "2001:db8::7"}) {
    sockaddr_storage storage;
    const auto address = *IpAddress::parse(text);
    EXPECT_GT(address.fill_socket(storage, 443), 0U);
    EXPECT_EQ(IpAddress::from_socket(reinterpret_cast<const sockaddr&>(storage)), address);
  }
  const sockaddr_storage unix_socket{.ss_family = AF_UNIX};
  EXPECT_FALSE(IpAddress::from_socket(reinterpret_cast<const sockaddr&>(unix_socket)));
}

TEST(IpAddressTest, EveryWayToMetadataIsMetadata) {
  for (const char* text :
       {"169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200",
        "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe", "64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
        "::169.254.169.254", "::ffff:0:169.254.169.254"}) {
    EXPECT_EQ(class_of(text), AddressClass::kMetadata) << text;
  }
  EXPECT_FALSE(can_be_opened(AddressClass::kMetadata));
}

TEST(IpAddressTest, WrappedAddressesAreJudgedByWhatTheyReach) {
  for (const char* text : {"::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::", "::1"})
    EXPECT_EQ(class_of(text), AddressClass::kLoopback) << text;
  for (const char* text : {"::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::"})
    EXPECT_EQ(class_of(text), AddressClass::kPrivate) << text;
  EXPECT_EQ(class_of("64:ff9b::8.8.8.8"), AddressClass::kPublic);
  EXPECT_EQ(class_of("::ffff:0.0.0.0"), AddressClass::kUnspecified);
}

TEST(IpAddressTest, OnlyUnicastOfTheInternetIsPublic) {
  using enum AddressClass;
  const struct {
    const char* text;
    AddressClass expected;
  } cases[] = {{"8.8.8.8", kPublic},           {"2606:4700::1111", kPublic},
               {"10.255.255.255", kPrivate},   {"172.31.0.1", kPrivate},
               {"172.32.0.1", kPublic},        {"192.168.1.1", kPrivate},
               {"100.64.0.1", kPrivate},       {"fd12::1", kPrivate},
               {"127.255.0.1", kLoopback},     {"169.254.1.1", kLinkLocal},
               {"fe80::1", kLinkLocal},        {"224.0.0.251", kMulticast},
               {"ff02::fb", kMulticast},       {"255.255.255.255", kReserved},
               {"0.0.0.0", kUnspecified},      {"::", kUnspecified},
               {"0.1.2.3", kReserved},         {"198.18.0.1", kBenchmark},
               {"198.19.255.254", kBenchmark}, {"fd50:6f6e:7300::1", kBenchmark},
               {"2001:0:1::1", kReserved},     {"64:ff9b:1::1", kReserved},
               {"5f00::1", kReserved},         {"fec0::1", kReserved},
               {"203.0.113.7", kPrivate},      {"2001:db8::1", kPrivate}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(class_of(text), expected) << text;
}

TEST(CidrRangeTest, RangesAreStrict) {
  for (const char* text : {"10.1.0.0/16", "10.1.2.3", "0.0.0.0/0", "fd00::/8", "::/0"})
    EXPECT_TRUE(CidrRange::parse(text)) << text;
  for (const char* text : {"10.1.2.3/16", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/08",
                           "10/8", "fd00::1/8", "::/129", "/8", "example.com/8", "10.0.0.0/8/8"})
    EXPECT_FALSE(CidrRange::parse(text)) << text;
}

TEST(CidrRangeTest, RangesSeeThroughWrappings) {
  const auto range = *CidrRange::parse("10.1.0.0/20");
  EXPECT_EQ(range.to_text(), "10.1.0.0/20");
  for (const char* inside : {"10.1.0.0", "10.1.15.255", "::ffff:10.1.3.4", "64:ff9b::10.1.3.4"})
    EXPECT_TRUE(range.contains(*IpAddress::parse(inside))) << inside;
  for (const char* outside : {"10.1.16.0", "10.0.255.255", "::a01:304:0", "fd00::1"})
    EXPECT_FALSE(range.contains(*IpAddress::parse(outside))) << outside;
}

}  // namespace
}  // namespace pons::names
