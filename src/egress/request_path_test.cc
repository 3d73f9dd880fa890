#include "request_path.h"

#include <gtest/gtest.h>

namespace pons::egress {
namespace {

using std::string_literals::operator""s;

bool matches(std::string_view pattern, std::string_view path) {
  const auto parsed = PathPattern::parse(pattern);
  EXPECT_TRUE(parsed) << pattern;
  return parsed && parsed->matches(path);
}

TEST(RequestPathTest, OnePathHasOneForm) {
  EXPECT_EQ(normalize_path("/repos/acme/x?tab=%2e%2e/..#").value(), "/repos/acme/x");
  EXPECT_EQ(normalize_path("/%72epos/%7Eme/a%2db").value(), "/repos/~me/a-b");
  EXPECT_EQ(normalize_path("/a%c3%a9%3a").value(), "/a%C3%A9%3A");
  EXPECT_EQ(normalize_path("/").value(), "/");
  EXPECT_EQ(normalize_path("/a/").value(), "/a/");
}

TEST(RequestPathTest, WhatServersReadDifferentlyIsRefused) {
  for (const std::string& target : {""s,          "*"s,           "a"s,
                                    "http://a/"s, "/a//b"s,       "//a"s,
                                    "/a/../b"s,   "/a/.."s,       "/a/./b"s,
                                    "/."s,        "/a/%2e%2e/b"s, "/a/.%2E/b"s,
                                    "/a%2fb"s,    "/a%2Fb"s,      "/a%5cb"s,
                                    "/a\\b"s,     "/a%00b"s,      "/a\0b"s,
                                    "/a%0d%0ab"s, "/a%252fb"s,    "/a%252e%252e"s,
                                    "/a%"s,       "/a%2"s,        "/a%zz"s,
                                    "/a b"s,      "/a\xc3\xa9"s,  "/a#b"s,
                                    "/a/..;/b"s,  "/a/.;x/b"s,    "/" + std::string(20'000, 'a')})
    EXPECT_FALSE(normalize_path(target)) << target;
}

TEST(PathPatternTest, AStarStaysInsideItsSegment) {
  EXPECT_TRUE(matches("/repos/acme/*", "/repos/acme/x"));
  EXPECT_FALSE(matches("/repos/acme/*", "/repos/acme/x/y"));
  EXPECT_FALSE(matches("/repos/acme/*", "/repos/acme/"));
  EXPECT_FALSE(matches("/repos/acme/*", "/repos/acme"));
  EXPECT_FALSE(matches("/repos/acme/*", "/repos/acme-evil/x"));
  EXPECT_TRUE(matches("/v*/x", "/v1/x"));
  EXPECT_TRUE(matches("/a*c", "/ac"));
  EXPECT_FALSE(matches("/ab*bc", "/abc"));
}

TEST(PathPatternTest, TwoStarsTakeTheRest) {
  EXPECT_TRUE(matches("/v1/**", "/v1/a/b/c"));
  EXPECT_TRUE(matches("/v1/**", "/v1/"));
  EXPECT_TRUE(matches("/v1/**", "/v1"));
  EXPECT_FALSE(matches("/v1/**", "/v10/a"));
  EXPECT_FALSE(matches("/v1/**", "/"));
  EXPECT_TRUE(matches("/**", "/"));
  EXPECT_TRUE(matches("/**", "/a/b"));
}

TEST(PathPatternTest, PatternsThatAreNotAnchoredOrNotPlainAreRefused) {
  for (const char* pattern : {"", "repos", "*", "**", "*/x", "/a/**/b", "/a**", "/a/***", "/a*b*c",
                              "/a/../b", "/a//b", "/a%2fb", "/%61", "/a?b", "/a b"})
    EXPECT_FALSE(PathPattern::parse(pattern)) << pattern;
}

}  // namespace
}  // namespace pons::egress
