#include "request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace pons::cell {
namespace {

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string message(Op op, const std::string& job, const std::string& payload) {
  RequestHeader header = {.magic = kMagic, .version = kVersion, .op = op, .id = 77, .job = {}};
  job.copy(header.job, sizeof header.job);
  return bytes_of(header) + payload;
}

bool parses(const std::string& bytes) {
  Request request;
  // A copy of its own size, so that the sanitizer sees a read past the end.
  const std::string copy(bytes);
  return parse_request(copy.data(), copy.size(), &request);
}

using namespace std::string_literals;

TEST(Request, StartIsTakenApart) {
  const Start start{.flags = kInputOpen, .argument_count = 2, .environment_count = 1};
  const std::string bytes =
      message(Op::kStart, "job", bytes_of(start) + "user\0/dir\0ls\0-l\0A=b\0"s);
  Request request;
  ASSERT_TRUE(parse_request(bytes.data(), bytes.size(), &request));
  EXPECT_EQ(request.id, 77U);
  EXPECT_STREQ(request.job, "job");
  EXPECT_STREQ(request.user, "user");
  EXPECT_STREQ(request.directory, "/dir");
  EXPECT_STREQ(request.arguments.first, "ls");
  EXPECT_EQ(request.arguments.count, 2U);
  EXPECT_STREQ(request.environment.first, "A=b");
}

TEST(Request, EveryPrefixOfAGoodOneIsRefused) {
  const Start start{.flags = 0, .argument_count = 2, .environment_count = 1};
  const std::string bytes = message(Op::kStart, "job", bytes_of(start) + "u\0d\0ls\0-l\0A=b\0"s);
  ASSERT_TRUE(parses(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(parses(bytes.substr(0, size)));
  EXPECT_FALSE(parses(bytes + "x"));
}

TEST(Request, FieldsOutOfBoundsAreRefused) {
  const auto start = [](Start fixed, const std::string& strings) {
    return parses(message(Op::kStart, "job", bytes_of(fixed) + strings));
  };
  EXPECT_TRUE(start({.flags = 0, .argument_count = 1}, "\0\0ls\0"s));
  EXPECT_FALSE(start({.flags = 1U << 20, .argument_count = 1}, "\0\0ls\0"s));
  EXPECT_FALSE(start({.flags = kBuiltin | kTerminal, .argument_count = 1}, "\0\0ls\0"s));
  EXPECT_FALSE(start({.flags = kShellLine, .argument_count = 2}, "\0\0ls\0x\0"s));
  EXPECT_FALSE(start({.flags = 0, .argument_count = 0}, "\0\0"s));
  EXPECT_FALSE(start({.flags = 0, .argument_count = 1}, "\0\0\0"s));
  EXPECT_FALSE(start({.flags = 0, .argument_count = 0xFFFFFFFF}, "\0\0ls\0"s));
  EXPECT_FALSE(start({.flags = 0, .argument_count = 1, .environment_count = 1}, "\0\0ls\0=x\0"s));
  EXPECT_FALSE(
      start({.flags = 0, .argument_count = 1, .environment_count = 1}, "\0\0ls\0novalue\0"s));
  EXPECT_FALSE(
      start({.flags = 0, .argument_count = 1, .buffer_bytes = kBufferBytesMax + 1}, "\0\0ls\0"s));
  EXPECT_FALSE(start({.flags = 0, .argument_count = 1}, std::string(64, 'u') + "\0\0ls\0"s));
  EXPECT_FALSE(parses(
      message(Op::kSignal, "job", bytes_of(Signal{.number = 65, .reach = Reach::kProcess}))));
  EXPECT_FALSE(parses(
      message(Op::kSignal, "job", bytes_of(Signal{.number = -9, .reach = Reach::kProcess}))));
  EXPECT_TRUE(
      parses(message(Op::kSignal, "job", bytes_of(Signal{.number = 9, .reach = Reach::kJob}))));
  EXPECT_FALSE(
      parses(message(Op::kSignal, "job", bytes_of(Signal{.number = 15, .reach = Reach::kJob}))));
  EXPECT_FALSE(
      parses(message(Op::kSignal, "job", bytes_of(Signal{.number = 9, .reach = Reach{3}}))));
  EXPECT_FALSE(parses(message(Op::kWrite, "job", bytes_of(Write{.offset = ~0ULL}) + "x")));
  EXPECT_FALSE(parses(message(Op::kRead, "", bytes_of(Read{}))));
  EXPECT_FALSE(parses(message(Op::kRead, "a\0b"s, bytes_of(Read{}))));
  EXPECT_FALSE(parses(message(Op{99}, "job", "")));
  EXPECT_FALSE(parses(message(Op::kWrite, "job", std::string(kMessageBytesMax, 'x'))));
}

}  // namespace
}  // namespace pons::cell
