#include "way_out.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "names_service.h"
#include "pons/linux/namespace.h"
#include "pons/linux/netlink.h"
#include "sniff.h"

namespace pons::spawner {
namespace {

using linux::UniqueFd;

sockaddr_in6 address_of(const char* text, std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET6, text, &address.sin6_addr), 1) << text;
  return address;
}

// IPv4 by its wrapped form: one kind of socket reaches both.
UniqueFd connect_to(const char* text, std::uint16_t port, int type = SOCK_STREAM) {
  UniqueFd socket(::socket(AF_INET6, type | SOCK_CLOEXEC, 0));
  const sockaddr_in6 address = address_of(text, port);
  const bool connected =
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  return connected ? std::move(socket) : UniqueFd();
}

int bind_error(const char* text, std::uint16_t port, int type, int option) {
  const UniqueFd socket(::socket(AF_INET6, type | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (option != 0) setsockopt(socket.get(), SOL_SOCKET, option, &on, sizeof on);
  const sockaddr_in6 address = address_of(text, port);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return errno;
  return type == SOCK_STREAM && listen(socket.get(), 1) != 0 ? errno : 0;
}

bool becomes_readable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 5'000) == 1;
}

class WayOutTest : public ::testing::Test {
 protected:
  void inside(const std::function<void()>& body) {
    const auto done = linux::run_in_net_namespace(namespace_.get(), [&]() -> Result<void> {
      auto routes = TRY(linux::NetlinkSocket::open(NETLINK_ROUTE));
      TRY_VOID(linux::bring_loopback_up(routes));
      body();
      return {};
    });
    EXPECT_TRUE(done) << done.error().describe();
  }
  UniqueFd namespace_ = std::move(*linux::create_net_namespace());
};

TEST_F(WayOutTest, EveryConnectionArrivesAtTheListenerAndSaysWhereItWanted) {
  inside([] {
    const auto way_out = open_way_out();
    ASSERT_TRUE(way_out) << way_out.error().describe();
    for (const auto& [text, wanted] :
         {std::pair("::ffff:203.0.113.1", "203.0.113.1"), std::pair("2001:db8::7", "2001:db8::7"),
          std::pair("::ffff:169.254.169.254", "169.254.169.254")}) {
      const UniqueFd client = connect_to(text, 443);
      ASSERT_TRUE(client) << text;
      ASSERT_TRUE(becomes_readable(way_out->listener.get()));
      const UniqueFd accepted(accept4(way_out->listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const auto original = egress::original_destination(accepted.get());
      ASSERT_TRUE(original) << original.error().describe();
      EXPECT_EQ(original->address.embedded().to_text(), wanted);
      EXPECT_EQ(original->port, 443);
    }
  });
}

TEST_F(WayOutTest, AConnectionToTheProxyItselfIsToldApart) {
  inside([] {
    const auto way_out = open_way_out();
    const UniqueFd client = connect_to("::ffff:127.0.0.1", kProxyPort);
    ASSERT_TRUE(client);
    ASSERT_TRUE(becomes_readable(way_out->listener.get()));
    const UniqueFd accepted(accept4(way_out->listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto original = egress::original_destination(accepted.get());
    ASSERT_TRUE(original);
    EXPECT_EQ(original->address.embedded().to_text(), "127.0.0.1");
    EXPECT_EQ(original->port, kProxyPort);
  });
}

TEST_F(WayOutTest, QuestionsForNamesArriveWhereverTheyGo) {
  inside([] {
    const auto way_out = open_way_out();
    for (const char* server : {"::ffff:8.8.8.8", "::ffff:127.0.0.53", "2001:db8::53", "::1"}) {
      const UniqueFd client = connect_to(server, 53, SOCK_DGRAM);
      ASSERT_EQ(send(client.get(), "query", 5, 0), 5) << server;
      ASSERT_TRUE(becomes_readable(way_out->names.get())) << server;
      char text[16];
      sockaddr_storage from{};
      alignas(cmsghdr) char control[128];
      iovec span{.iov_base = text, .iov_len = sizeof text};
      msghdr message{};
      message.msg_name = &from;
      message.msg_namelen = sizeof from;
      message.msg_iov = &span;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      ASSERT_EQ(recvmsg(way_out->names.get(), &message, 0), 5);
      egress::send_back(way_out->names.get(), message, "reply");
      EXPECT_TRUE(becomes_readable(client.get())) << server;
    }
  });
}

TEST_F(WayOutTest, NobodyInsideCanTakeItsPlace) {
  inside([] {
    const auto way_out = open_way_out();
    for (const int option : {0, SO_REUSEADDR, SO_REUSEPORT})
      for (const char* address : {"::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0"}) {
        EXPECT_EQ(bind_error(address, kProxyPort, SOCK_STREAM, option), EADDRINUSE) << address;
        EXPECT_EQ(bind_error(address, kNamesPort, SOCK_DGRAM, option), EADDRINUSE) << address;
      }
  });
}

TEST_F(WayOutTest, APortThatIsTakenRefusesTheNetworkAndChangesNothing) {
  inside([] {
    const UniqueFd taken(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in6 address = address_of("::", kNamesPort);
    ASSERT_EQ(bind(taken.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const auto refused = open_way_out();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().os_error, EADDRINUSE);
    EXPECT_FALSE(connect_to("::ffff:203.0.113.1", 443)) << "there is still no route";
  });
}

TEST_F(WayOutTest, WithoutItNothingCanBeReached) {
  inside([] {
    EXPECT_FALSE(connect_to("::ffff:203.0.113.1", 443));
    EXPECT_FALSE(connect_to("2001:db8::7", 443));
  });
}

}  // namespace
}  // namespace pons::spawner
