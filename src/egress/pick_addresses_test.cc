#include "pick_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pons::egress {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(const std::vector<names::IpAddress>& addresses) {
  std::vector<std::string> texts;
  for (const names::IpAddress& address : addresses) texts.push_back(address.to_text());
  return texts;
}

TEST(PickAddressesTest, OneForbiddenAddressRefusesTheName) {
  const PackageHosts packages;
  const auto policy = Policy::compile(R"({"mode":"public"})", 1, packages).value();
  const auto pick = [&](std::initializer_list<const char*> addresses) {
    names::ResolvedHost host;
    for (const char* text : addresses) host.addresses.push_back(*names::IpAddress::parse(text));
    return pick_addresses(host, *policy, names::HostName::parse("rebind.example").value(), 443);
  };
  EXPECT_THAT(texts(pick({"93.184.216.34", "1.1.1.1"}).to_try),
              ElementsAre("93.184.216.34", "1.1.1.1"));
  for (const char* forbidden :
       {"10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
        "0.0.0.0", "198.18.0.1", "fd00:ec2::254"}) {
    const AddressChoice choice = pick({"93.184.216.34", forbidden});
    EXPECT_EQ(choice.decision.reason, Reason::kAddressNotAllowed) << forbidden;
    EXPECT_EQ(choice.refused.value().to_text(), forbidden);
    EXPECT_TRUE(choice.to_try.empty());
  }
  EXPECT_FALSE(pick({}).decision.allowed());
}

}  // namespace
}  // namespace pons::egress
