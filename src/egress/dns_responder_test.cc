#include "pons/egress/dns_responder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

namespace pons::egress {
namespace {

using std::string_literals::operator""s;

constexpr std::uint16_t kHttps = 65;
constexpr std::uint16_t kTxt = 16;
constexpr std::uint16_t kNull = 10;

class DnsResponderTest : public ::testing::Test {
 protected:
  void allow(std::string_view document) {
    const PackageHosts packages;
    policy_ = Policy::compile(document, 1, packages).value();
  }

  DnsOutcome ask(std::string_view name, std::uint16_t type = names::kDnsA) {
    return answer_dns(names::write_dns_query(9, names::HostName::parse(name).value(), type),
                      *policy_, addresses_, clock_.now());
  }
  names::DnsResponse reply(std::string_view name, std::uint16_t type = names::kDnsA) {
    return names::parse_dns_response(ask(name, type).reply).value();
  }
  names::IpAddress address(std::string_view name, std::uint16_t type = names::kDnsA) {
    const auto response = reply(name, type);
    EXPECT_EQ(response.answers.size(), 1U);
    const auto& data = response.answers.at(0).data;
    return names::IpAddress::from_wire(
               {reinterpret_cast<const std::uint8_t*>(data.data()), data.size()})
        .value();
  }

  ManualClock clock_;
  SyntheticAddresses addresses_;
  std::shared_ptr<const Policy> policy_ = Policy::closed(1);
};

TEST_F(DnsResponderTest, AnAllowedNameGetsAddressesThatLeadBackToIt) {
  allow(R"({"mode":"list","allow":[{"host":"api.github.com"},{"host":"b.example"}]})");
  const names::IpAddress v4 = address("API.github.com");
  const names::IpAddress v6 = address("api.github.com", names::kDnsAaaa);
  EXPECT_TRUE(SyntheticAddresses::is_synthetic(v4));
  EXPECT_TRUE(SyntheticAddresses::is_synthetic(v6));
  for (const names::IpAddress& found : {v4, v6})
    EXPECT_EQ(addresses_.find(found).value().text(), "api.github.com");
  EXPECT_EQ(address("api.github.com"), v4);
  EXPECT_NE(address("b.example"), v4);
  EXPECT_LE(reply("api.github.com").answers[0].ttl_seconds, 60U);
}

TEST_F(DnsResponderTest, DataInNamesGoesNowhere) {
  allow(R"({"mode":"list","allow":[{"host":"api.github.com"}]})");
  for (const std::uint16_t type :
       {names::kDnsA, names::kDnsAaaa, kTxt, kNull, names::kDnsAny, kHttps}) {
    const auto outcome = ask("nbswy3dpeb3w64tmmq.evil.com", type);
    EXPECT_EQ(outcome.code, names::DnsCode::kNoSuchName);
    EXPECT_EQ(outcome.decision.reason, Reason::kHostNotAllowed);
    EXPECT_EQ(names::parse_dns_response(outcome.reply).value().answers.size(), 0U);
  }
  EXPECT_EQ(reply(std::string(63, 'a') + ".api.github.com").code, names::DnsCode::kNoSuchName);
  EXPECT_EQ(addresses_.size(), 0U);
}

TEST_F(DnsResponderTest, OtherTypesOfAnAllowedNameAreEmptyAndTakeNoAddress) {
  allow(R"({"mode":"list","allow":[{"host":"api.github.com"}]})");
  for (const std::uint16_t type : {kTxt, kNull, kHttps, std::uint16_t{64}, std::uint16_t{15}}) {
    const auto response = reply("api.github.com", type);
    EXPECT_EQ(response.code, names::DnsCode::kNoError);
    EXPECT_EQ(response.answers.size(), 0U);
  }
  EXPECT_EQ(reply("api.github.com", names::kDnsAny).answers.at(0).type, names::kDnsHinfo);
  EXPECT_EQ(addresses_.size(), 0U);
}

TEST_F(DnsResponderTest, OwnNamesAndLocalhostAreThereInEveryMode) {
  EXPECT_EQ(addresses_.find(address("gateway.pons.internal"))->text(), "gateway.pons.internal");
  EXPECT_EQ(addresses_.find(address("tools.pons.internal", names::kDnsAaaa))->text(),
            "tools.pons.internal");
  EXPECT_EQ(reply("evil.pons.internal").code, names::DnsCode::kNoSuchName);
  EXPECT_EQ(address("localhost").to_text(), "127.0.0.1");
  EXPECT_EQ(address("a.localhost", names::kDnsAaaa).to_text(), "::1");
  EXPECT_EQ(reply("example.com").code, names::DnsCode::kNoSuchName);
}

TEST_F(DnsResponderTest, ReverseLookupsKnowOnlyWhatWasGivenOut) {
  allow(R"({"mode":"list","allow":[{"host":"api.github.com"}]})");
  ASSERT_EQ(address("api.github.com").to_text(), "198.18.0.1");
  const auto response = reply("1.0.18.198.in-addr.arpa", names::kDnsPtr);
  ASSERT_EQ(response.answers.size(), 1U);
  EXPECT_EQ(response.answers[0].data, "\3api\6github\3com\0"s);
  std::string nibbles = "1.0.0.0.";
  for (int i = 0; i < 16; ++i) nibbles += "0.";
  EXPECT_EQ(reply(nibbles + "0.0.3.7.e.6.f.6.0.5.d.f.ip6.arpa", names::kDnsPtr).answers.size(), 1U);
  for (const char* other : {"2.0.18.198.in-addr.arpa", "8.8.8.8.in-addr.arpa", "1.in-addr.arpa",
                            "x.0.18.198.in-addr.arpa", "1.ip6.arpa", "1.1.0.18.198.in-addr.arpa"})
    EXPECT_EQ(reply(other, names::kDnsPtr).code, names::DnsCode::kNoSuchName) << other;
  EXPECT_EQ(reply("1.0.0.127.in-addr.arpa", names::kDnsPtr).answers.at(0).data, "\11localhost\0"s);
}

TEST_F(DnsResponderTest, BrokenQueriesGetAnErrorOrNothing) {
  const auto answer = [&](const std::string& bytes) {
    return answer_dns(bytes, *policy_, addresses_, clock_.now());
  };
  EXPECT_EQ(answer("").reply, "");
  EXPECT_EQ(answer(std::string(12, '\0')).code, names::DnsCode::kFormatError);
  std::string response =
      names::write_dns_query(9, names::HostName::parse("a.example").value(), names::kDnsA);
  response[2] = '\x81';
  EXPECT_EQ(answer(response).reply, "") << "two responders must not talk to each other";
  const std::string header = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"s;
  EXPECT_EQ(answer(header + "\1a\7version\0\0\20\0\3"s).code,
            names::DnsCode::kRefused);  // class CHAOS
  EXPECT_EQ(answer(header + "\6evil\0a\3com\0\0\1\0\1"s).code, names::DnsCode::kNoSuchName);
  EXPECT_EQ(answer(header + "\0\0\2\0\1"s).code, names::DnsCode::kNoSuchName);  // the root
  EXPECT_EQ(answer(header + "\1"
                            "1\1"
                            "2\1"
                            "3\1"
                            "4\0\0\1\0\1"s)
                .code,
            names::DnsCode::kNoSuchName);
}

TEST_F(DnsResponderTest, PublicModeNamesAreGivenAddressesButNotSingleLabels) {
  allow(R"({"mode":"public","deny":["*.evil.com"]})");
  EXPECT_EQ(ask("anything.example").decision.breadth, Breadth::kAnything);
  EXPECT_EQ(reply("anything.example").answers.size(), 1U);
  EXPECT_EQ(reply("intranet").code, names::DnsCode::kNoSuchName);
  EXPECT_EQ(ask("a.b.evil.com").decision.reason, Reason::kHostDenied);
}

TEST_F(DnsResponderTest, MadeUpNamesUnderAWildcardAreFewAndShort) {
  allow(R"({"mode":"list","allow":[{"host":"*.example.com"},{"host":"named.example.com"}]})");
  int given = 0;
  for (int i = 0; i < 1000; ++i)
    given += reply(fmt::format("data{}.example.com", i)).code == names::DnsCode::kNoError ? 1 : 0;
  EXPECT_EQ(given, 60);
  EXPECT_EQ(ask("data999.example.com").decision.reason, Reason::kTooManyNames);
  EXPECT_EQ(reply("data1.example.com").code, names::DnsCode::kNoError)
      << "a known name costs nothing";
  EXPECT_EQ(reply("named.example.com").code, names::DnsCode::kNoError)
      << "a named host is not affected";
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(reply("data500.example.com").code, names::DnsCode::kNoError);
  clock_.advance(std::chrono::minutes(5));
  EXPECT_EQ(reply(std::string(41, 'a') + ".example.com").code, names::DnsCode::kRefused);
}

TEST_F(DnsResponderTest, AFloodOfNamesIsRefusedAndNotKept) {
  allow(R"({"mode":"public"})");
  for (int i = 0; i < 5000; ++i) ask(fmt::format("n{}.example{}.com", i, i % 7));
  EXPECT_EQ(addresses_.size(), 600U);
  EXPECT_EQ(ask("one-more.example.com").code, names::DnsCode::kRefused);
}

names::HostName name(std::string_view text) {
  return names::HostName::parse(text).value();
}

TEST(SyntheticAddressesTest, AnAddressServesAnotherNameOnlyAfterQuarantine) {
  ManualClock clock;
  SyntheticAddresses addresses({.names_max = 2, .quarantine = std::chrono::minutes(10)});
  const auto assign = [&](std::string_view text) {
    return addresses.assign(name(text), Breadth::kNamed, clock.now());
  };
  const names::IpAddress first = assign("a.example")->v4;
  ASSERT_TRUE(assign("b.example"));
  EXPECT_EQ(assign("c.example").error().code, ErrorCode::kLimit);
  clock.advance(std::chrono::minutes(9));
  EXPECT_FALSE(assign("c.example"));
  ASSERT_TRUE(assign("b.example"));  // used again
  clock.advance(std::chrono::minutes(2));
  const auto third = assign("c.example");
  ASSERT_TRUE(third);
  EXPECT_NE(third->v4, first) << "the whole range comes first";
  EXPECT_FALSE(addresses.find(first));
  EXPECT_EQ(addresses.find(third->v6)->text(), "c.example");
  EXPECT_FALSE(assign("d.example")) << "b.example was used two minutes ago";
}

TEST(SyntheticAddressesTest, ANameWithAnOpenFlowKeepsItsAddress) {
  ManualClock clock;
  SyntheticAddresses addresses({.names_max = 2});
  const names::IpAddress kept =
      addresses.assign(name("a.example"), Breadth::kNamed, clock.now())->v4;
  auto hold = addresses.hold(name("a.example"), clock.now());
  ASSERT_TRUE(hold);
  EXPECT_FALSE(addresses.hold(name("unknown.example"), clock.now()));
  ASSERT_TRUE(addresses.assign(name("b.example"), Breadth::kNamed, clock.now()));
  clock.advance(std::chrono::hours(24));
  ASSERT_TRUE(addresses.assign(name("c.example"), Breadth::kNamed, clock.now()));
  EXPECT_EQ(addresses.find(kept)->text(), "a.example");
  hold.reset();
  clock.advance(std::chrono::hours(24));
  ASSERT_TRUE(addresses.assign(name("d.example"), Breadth::kNamed, clock.now()));
  EXPECT_FALSE(addresses.find(kept));
}

TEST(SyntheticAddressesTest, AHundredThousandNamesTakeNoMoreRoomThanFourThousand) {
  ManualClock clock;
  SyntheticAddresses addresses;
  int given = 0;
  for (int i = 0; i < 100'000; ++i) {
    const auto result =
        addresses.assign(name(fmt::format("n{}.example", i)), Breadth::kNamed, clock.now());
    given += result ? 1 : 0;
    clock.advance(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(addresses.size(), 4096U);
  EXPECT_GT(given, 4096) << "old names make room for new ones";
}

TEST(SyntheticAddressesTest, NoAddressEndsInZeroOr255AndNoneRepeats) {
  ManualClock clock;
  SyntheticAddresses addresses;
  std::set<names::IpAddress> seen;
  for (int i = 0; i < 4096; ++i) {
    const auto given =
        addresses.assign(name(fmt::format("n{}.example", i)), Breadth::kNamed, clock.now());
    ASSERT_TRUE(given);
    EXPECT_TRUE(seen.insert(given->v4).second);
    EXPECT_TRUE(seen.insert(given->v6).second);
    const unsigned last = given->v4.v4_bits() & 0xFF;
    EXPECT_TRUE(last != 0 && last != 255);
    EXPECT_EQ(names::classify(given->v4), names::AddressClass::kBenchmark);
    EXPECT_EQ(names::classify(given->v6), names::AddressClass::kBenchmark);
  }
  for (const char* other : {"198.17.255.255", "198.20.0.1", "8.8.8.8", "fd50:6f6e:7300:1::1",
                            "fd50:6f6e:7300::2:0:1", "::1"})
    EXPECT_FALSE(addresses.find(*names::IpAddress::parse(other))) << other;
}

}  // namespace
}  // namespace pons::egress
