#include "pons/linux/tcp.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace pons::linux {
namespace {

std::uint16_t port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);  // the same place in v6
}

std::string own_name() {
  return "linux_test (pid " + std::to_string(getpid()) + ")";
}

TEST(Tcp, NamesWhoHoldsAPort) {
  for (const char* address : {"127.0.0.1", "::1"}) {
    const auto listener = listen_tcp(address, 0);
    ASSERT_TRUE(listener) << listener.error().describe();
    const std::uint16_t port = port_of(listener->get());
    EXPECT_EQ(find_listener_owner(port), own_name());
    const auto second = listen_tcp(address, port);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
    EXPECT_NE(second.error().message.find(own_name()), std::string::npos);
  }
}

TEST(Tcp, AFreePortHasNoOwner) {
  std::uint16_t port = 0;
  {
    const auto listener = listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(listener);
    port = port_of(listener->get());
  }
  EXPECT_EQ(find_listener_owner(port), "");
}

TEST(Tcp, Version6DoesNotTakeThePortOfVersion4) {
  bool both = false;
  // Another program may have just this port of version 4.
  for (int i = 0; i < 20 && !both; ++i) {
    const auto v6 = listen_tcp("::", 0);
    ASSERT_TRUE(v6) << v6.error().describe();
    both = listen_tcp("0.0.0.0", port_of(v6->get())).has_value();
  }
  EXPECT_TRUE(both);
}

TEST(Tcp, OnlyNumericAddresses) {
  for (const char* address : {"localhost", "", "127.1", "1.2.3.4.5", "::g", "127.0.0.1 "}) {
    const auto refused = listen_tcp(address, 0);
    ASSERT_FALSE(refused) << address;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace pons::linux
