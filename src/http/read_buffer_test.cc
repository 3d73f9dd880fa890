#include "read_buffer.h"

#include <sys/socket.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "kept_head.h"
#include "pons/linux/run_task.h"

namespace pons::http {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMax = 100'000;

void put(ReadBuffer& buffer, std::string_view text, std::size_t bytes_max = kMax) {
  const std::span<char> room = buffer.room(bytes_max);
  ASSERT_LE(text.size(), room.size());
  std::memcpy(room.data(), text.data(), text.size());
  buffer.add(text.size());
}

TEST(ReadBufferTest, WhatWasAddedIsUnreadUntilItIsConsumed) {
  ReadBuffer buffer;
  EXPECT_TRUE(buffer.is_empty());
  put(buffer, "one");
  put(buffer, "two");
  EXPECT_EQ(buffer.unread(), "onetwo");
  buffer.consume(4);
  EXPECT_EQ(buffer.unread(), "wo");
  buffer.rest();
  EXPECT_EQ(buffer.unread(), "wo") << "it is not empty";
  buffer.consume(2);
  EXPECT_TRUE(buffer.has_room());
  buffer.rest();
  EXPECT_FALSE(buffer.has_room()) << "it holds no memory";
  put(buffer, "three");
  EXPECT_EQ(buffer.unread(), "three");
}

TEST(ReadBufferTest, AFullBufferMovesWhatIsUnreadAndGrowsAsFarAsItMay) {
  ReadBuffer buffer;
  std::string all;
  while (buffer.unread().size() < kMax) {
    const std::string text(std::min<std::size_t>(7, buffer.room(kMax).size()),
                           static_cast<char>('a' + all.size() % 26));
    put(buffer, text);
    all += text;
  }
  EXPECT_EQ(buffer.unread(), all);
  EXPECT_TRUE(buffer.room(kMax).empty());
  buffer.consume(10);
  EXPECT_EQ(buffer.room(kMax).size(), 10);
  EXPECT_EQ(buffer.unread(), all.substr(10));
}

TEST(ReadBufferTest, NoMemoryIsHeldWhileNothingComes) {
  const auto loop = linux::Loop::create();
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const linux::UniqueFd peer(ends[1]);
  const auto transport = create_plain_transport(**loop, linux::UniqueFd(ends[0]));
  ReadBuffer buffer;
  auto read = read_into(**transport, buffer, kMax, (*loop)->now() + 1min);
  std::optional<Result<std::size_t>> got;
  linux::TaskGroup group(**loop);
  group.spawn([](Task<Result<std::size_t>> task, linux::Loop& on, auto& into) -> Task<> {
    into = co_await std::move(task);
    on.stop();
  }(std::move(read), **loop, got));
  EXPECT_FALSE(got.has_value());
  EXPECT_FALSE(buffer.has_room());
  ASSERT_EQ(send(peer.get(), "hi", 2, 0), 2);
  (*loop)->run();
  ASSERT_TRUE(got.has_value() && got->has_value());
  EXPECT_EQ(buffer.unread(), "hi");
}

TEST(KeptHeadTest, HeadsOutliveTheBufferTheyCameIn) {
  KeptHead kept;
  std::size_t scanned = 0;
  std::string bytes = "GET /a?b HTTP/1.1\r\nHost: h.test\r\nX: y\r\nEmpty:\r\n\r\n";
  RequestHead request;
  ASSERT_EQ(parse_request_head(bytes, scanned, {}, request).state, HeadParse::State::kDone);
  kept.keep(bytes, request);
  bytes.assign(bytes.size(), '#');
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.target, "/a?b");
  EXPECT_EQ(request.host, "h.test");
  EXPECT_EQ(request.find("x"), "y");
  EXPECT_EQ(request.find("empty"), "");

  scanned = 0;
  bytes = "HTTP/1.1 404 Nothing There\r\nX: z\r\nContent-Length: 0\r\n\r\n";
  ResponseHead response;
  ASSERT_EQ(parse_response_head(bytes, scanned, {}, "GET", response).state,
            HeadParse::State::kDone);
  kept.keep(bytes, response);
  bytes.assign(bytes.size(), '#');
  EXPECT_EQ(response.reason, "Nothing There");
  EXPECT_EQ(response.find("X"), "z");
}

}  // namespace
}  // namespace pons::http
