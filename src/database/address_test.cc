#include "pons/database/address.h"

#include <gmock/gmock.h>

namespace pons::database {
namespace {

using ::testing::HasSubstr;

TEST(Address, SeveralHostsAndOptionsAreTaken) {
  const auto address =
      Address::parse("postgres://pons@a.example:5433,b.example/work?sslmode=require");
  ASSERT_TRUE(address) << address.error().describe();
  EXPECT_EQ(address->hosts, (std::vector<std::string>{"a.example", "b.example"}));
  EXPECT_EQ(address->shown, "postgres://a.example,b.example/work");
  EXPECT_EQ(address->options.at("port"), "5433,");
  EXPECT_EQ(address->options.at("sslmode"), "require");
  EXPECT_EQ(address->options.at("target_session_attrs"), "read-write");
}

TEST(Address, WhatLeavesTheMachineIsVerifiedUnlessItIsSaidOtherwise) {
  EXPECT_EQ(Address::parse("postgres://u@db.example/d")->options.at("sslmode"), "verify-full");
  EXPECT_EQ(Address::parse("postgres://u@127.0.0.1,db.example/d")->options.at("sslmode"),
            "verify-full");
  EXPECT_EQ(Address::parse("postgres://u@127.0.0.1/d")->options.at("sslmode"), "prefer");
}

TEST(Address, APasswordIsRefusedAndNotShown) {
  for (const char* url : {"postgres://u:hunter2@h/d", "postgres://u@h/d?password=hunter2"}) {
    const auto refused = Address::parse(url);
    ASSERT_FALSE(refused) << url;
    EXPECT_THAT(refused.error().message, HasSubstr("password"));
    EXPECT_EQ(refused.error().message.find("hunter2"), std::string::npos);
  }
}

TEST(Address, WhatCannotBeReachedOrMeantIsRefused) {
  for (const char* url :
       {"", "mysql://u@h/d", "postgres://", "postgres:///d", "postgres://h/d", "postgres://u@h",
        "postgres://u@%2Frun%2Fpostgresql/d", "postgres://u@h/d?sslkey=/etc/shadow",
        "postgres://u@h/d?passfile=/x", "postgres://u@h/d?service=x",
        "postgres://u@h/d?krbsrvname=x", "postgres://u@h/d?nonsense=1", "postgres://u@h,/d",
        "postgres://u@a,b,c,d,e,f,g,h,i/d"})
    EXPECT_EQ(Address::parse(url).error().code, ErrorCode::kInvalid) << url;
}

}  // namespace
}  // namespace pons::database
