#include "pons/http/query.h"

#include <gtest/gtest.h>

namespace pons::http {
namespace {

TEST(QueryTest, WhatWasEncodedComesBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_encode("a b/ä"), "a%20b%2F%C3%A4");
}

TEST(QueryTest, BrokenEncodingIsRefusedAndNotRepaired) {
  for (const char* text : {"%", "%4", "%4g", "a%zz", "%%41"}) EXPECT_FALSE(percent_decode(text));
}

TEST(QueryTest, AValueIsFoundByItsWholeName) {
  EXPECT_EQ(**find_query("ab=1&a=2&a=3", "a"), "2");
  EXPECT_EQ(**find_query("flag&x=1", "flag"), "");
  EXPECT_FALSE(find_query("ab=1", "a")->has_value());
  EXPECT_EQ(find_query("a=%4", "a").error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace pons::http
