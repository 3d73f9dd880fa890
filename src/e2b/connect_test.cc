#include "connect.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <string>

namespace pons::e2b {
namespace {

TEST(EnvelopeTest, WhatIsWrittenIsRead) {
  const std::string bytes = make_envelope(Envelope::kMessage, std::string(70'000, 'x')) + "more";
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(parse_envelope(std::string_view(bytes).substr(0, i), 1 << 20).state,
              EnvelopeParse::State::kNeedMore);
  const auto parse = parse_envelope(bytes, 1 << 20);
  EXPECT_EQ(parse.payload, std::string(70'000, 'x'));
  EXPECT_EQ(bytes.size() - parse.consumed, 4U);
  EXPECT_EQ(parse_envelope(bytes, 69'999).state, EnvelopeParse::State::kRefused);
  for (const char flags : {1, 2, 3, -1})
    EXPECT_EQ(parse_envelope({&flags, 1}, 1 << 20).state, EnvelopeParse::State::kRefused);
}

TEST(RpcCodeTest, NamesOfFilesDecideNothing) {
  const auto code_of = [](ErrorCode code, const char* step, std::string message) {
    return rpc_code(make_error(code, step, std::move(message))).name;
  };
  // As they come from this process, from the cell, and from the cell's programs.
  EXPECT_EQ(code_of(ErrorCode::kInvalid, "find user", "there is no user \"x\""), "unauthenticated");
  EXPECT_EQ(
      code_of(ErrorCode::kInvalid, "ask for sandbox", os_error("find user", {}, ENOENT).describe()),
      "unauthenticated");
  EXPECT_EQ(
      code_of(
          ErrorCode::kNotFound, "ask for sandbox",
          os_error("use file", "cannot find user x: No such file or directory", ENOENT).describe()),
      "unauthenticated");
  EXPECT_EQ(
      code_of(ErrorCode::kNotFound, "ask for sandbox",
              os_error("use file", "cannot stat /tmp/find user: No such file or directory", ENOENT)
                  .describe()),
      "not_found");
  EXPECT_EQ(code_of(ErrorCode::kLimit, "ask for sandbox",
                    "find user ids: every range of user ids is in use"),
            "resource_exhausted");
}

}  // namespace
}  // namespace pons::e2b
