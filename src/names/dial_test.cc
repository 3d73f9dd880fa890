#include "pons/names/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "pons/linux/run_task.h"
#include "pons/linux/tcp.h"

namespace pons::names {
namespace {

TEST(DialTest, WhatNobodyAcknowledgesIsGivenUpWithinAMinute) {
  const auto listener = linux::listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(listener.has_value());
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(getsockname(listener->get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto loop = linux::Loop::create();
  const auto socket = linux::run_to_end(
      **loop, dial(**loop, *IpAddress::parse("127.0.0.1"), ntohs(address.sin_port),
                   (*loop)->now() + std::chrono::seconds(5)));
  ASSERT_TRUE(socket.has_value());
  int milliseconds = 0;
  size = sizeof milliseconds;
  ASSERT_EQ(getsockopt(socket->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &size), 0);
  EXPECT_EQ(milliseconds, 60'000);
}

}  // namespace
}  // namespace pons::names
