#include <arpa/inet.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "forked.h"
#include "pons/linux/namespace.h"
#include "pons/linux/netlink.h"
#include "pons/linux/nftables.h"
#include "pons/linux/tcp.h"

namespace pons::linux {
namespace {

constexpr std::uint16_t kTcpPort = 8443;
constexpr std::uint16_t kDnsPort = 5353;
constexpr int kIp6OriginalDestination = 80;  // IP6T_SO_ORIGINAL_DST: its header clashes with libc's

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }

  static Endpoint of(const char* address, std::uint16_t port) {
    Endpoint endpoint;
    auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.storage);
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      v4->sin_port = htons(port);
      endpoint.size = sizeof *v4;
    } else {
      inet_pton(AF_INET6, address, &v6->sin6_addr);
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons(port);
      endpoint.size = sizeof *v6;
    }
    return endpoint;
  }
  std::string text() const {
    char host[INET6_ADDRSTRLEN] = {};
    const bool v4 = storage.ss_family == AF_INET;
    const auto* as_v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    const auto* as_v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(storage.ss_family,
              v4 ? static_cast<const void*>(&as_v4->sin_addr) : &as_v6->sin6_addr, host,
              sizeof host);
    return std::string(host) + " " + std::to_string(ntohs(v4 ? as_v4->sin_port : as_v6->sin6_port));
  }
};

UniqueFd socket_to(const char* address, std::uint16_t port, int type) {
  Endpoint target = Endpoint::of(address, port);
  UniqueFd fd(socket(target.storage.ss_family, type | SOCK_CLOEXEC, 0));
  return connect(fd.get(), target.get(), target.size) == 0 ? std::move(fd) : UniqueFd();
}

UniqueFd accept_within_seconds(const UniqueFd& listener) {
  pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, 5'000) != 1) return {};
  return UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

std::string original_destination(int fd, int level, int option) {
  Endpoint original;
  if (getsockopt(fd, level, option, &original.storage, &original.size) != 0) return "none";
  return original.text();
}

// A namespace with loopback up, routes to everywhere and the redirection in place.
class NetworkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto created = create_net_namespace();
    ASSERT_TRUE(created) << created.error().describe();
    namespace_ = std::move(*created);
    auto routes = NetlinkSocket::open_in(namespace_.get(), NETLINK_ROUTE);
    ASSERT_TRUE(routes) << routes.error().describe();
    ASSERT_TRUE(bring_loopback_up(*routes));
    for (const int family : {AF_INET, AF_INET6}) {
      const auto added = add_local_default_route(*routes, family);
      ASSERT_TRUE(added) << added.error().describe();
      EXPECT_TRUE(add_local_default_route(*routes, family)) << "must be repeatable";
    }
    auto rules = Nftables::open_in(namespace_.get());
    ASSERT_TRUE(rules) << rules.error().describe();
    rules_.emplace(std::move(*rules));
  }
  void inside(const std::function<void()>& body) {
    const auto done = run_in_net_namespace(namespace_.get(), [&]() -> Result<void> {
      body();
      return {};
    });
    EXPECT_TRUE(done) << done.error().describe();
  }
  void redirect() {
    const auto loaded = rules_->redirect_outgoing({.tcp = kTcpPort, .dns = kDnsPort});
    ASSERT_TRUE(loaded) << loaded.error().describe();
  }

  UniqueFd namespace_;
  std::optional<Nftables> rules_;
};

TEST_F(NetworkTest, ConnectionsToAnywhereArriveAtTheLocalPort) {
  redirect();
  inside([] {
    const UniqueFd v4 = *listen_tcp("127.0.0.1", kTcpPort);
    const UniqueFd client = socket_to("203.0.113.1", 443, SOCK_STREAM);
    ASSERT_TRUE(client) << errno;
    const UniqueFd accepted = accept_within_seconds(v4);
    ASSERT_TRUE(accepted);
    EXPECT_EQ(original_destination(accepted.get(), SOL_IP, SO_ORIGINAL_DST), "203.0.113.1 443");
    ASSERT_EQ(send(client.get(), "hello", 5, MSG_NOSIGNAL), 5);
    char text[6] = {};
    ASSERT_EQ(recv(accepted.get(), text, 5, MSG_WAITALL), 5);
    EXPECT_STREQ(text, "hello");

    const UniqueFd v6 = *listen_tcp("::1", kTcpPort);
    const UniqueFd client_v6 = socket_to("2001:db8::7", 8080, SOCK_STREAM);
    ASSERT_TRUE(client_v6) << errno;
    const UniqueFd accepted_v6 = accept_within_seconds(v6);
    ASSERT_TRUE(accepted_v6);
    EXPECT_EQ(original_destination(accepted_v6.get(), SOL_IPV6, kIp6OriginalDestination),
              "2001:db8::7 8080");
  });
}

TEST_F(NetworkTest, LoopbackIsLeftAlone) {
  redirect();
  inside([] {
    for (const char* address : {"127.0.0.1", "127.9.9.9", "::1"}) {
      const UniqueFd redirected = *listen_tcp(address, kTcpPort);
      const UniqueFd wanted = *listen_tcp(address, 9999);
      const UniqueFd client = socket_to(address, 9999, SOCK_STREAM);
      ASSERT_TRUE(client) << address;
      EXPECT_TRUE(accept_within_seconds(wanted)) << address;
      EXPECT_FALSE(socket_to(address, 9998, SOCK_STREAM)) << address;
    }
  });
}

TEST_F(NetworkTest, NameLookupsArriveAtTheirPortWhereverTheyGo) {
  redirect();
  inside([] {
    for (const auto& [local, remote] :
         {std::pair("127.0.0.1", "198.51.100.53"), std::pair("127.0.0.1", "127.0.0.53"),
          std::pair("::1", "2001:db8::53")}) {
      Endpoint here = Endpoint::of(local, kDnsPort);
      const UniqueFd server(socket(here.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(bind(server.get(), here.get(), here.size), 0);
      const UniqueFd client = socket_to(remote, 53, SOCK_DGRAM);
      ASSERT_EQ(send(client.get(), "query", 5, 0), 5) << remote;
      pollfd entry{.fd = server.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&entry, 1, 5'000), 1) << remote;
      char text[16] = {};
      Endpoint from;
      ASSERT_EQ(recvfrom(server.get(), text, sizeof text, 0, from.get(), &from.size), 5);
      // The answer finds its way back as if the asked server had sent it.
      ASSERT_EQ(sendto(server.get(), "reply", 5, 0, from.get(), from.size), 5);
      entry = {.fd = client.get(), .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&entry, 1, 5'000), 1) << remote;
    }
  });
}

TEST_F(NetworkTest, WithoutTheRulesNothingIsRedirected) {
  inside([] {
    const UniqueFd listener = *listen_tcp("127.0.0.1", kTcpPort);
    EXPECT_FALSE(socket_to("203.0.113.1", 443, SOCK_STREAM));
  });
}

TEST_F(NetworkTest, LoadingAgainReplacesTheRules) {
  for (int round = 0; round < 3; ++round)
    ASSERT_TRUE(rules_->redirect_outgoing({.tcp = 1, .dns = 1}));
  redirect();
  inside([] {
    const UniqueFd listener = *listen_tcp("127.0.0.1", kTcpPort);
    EXPECT_TRUE(socket_to("203.0.113.1", 443, SOCK_STREAM));
  });
  EXPECT_EQ(rules_->redirect_outgoing({.tcp = 0, .dns = 1}).error().code, ErrorCode::kInvalid);
}

TEST(NetlinkTest, RefusalsOfTheKernelAreErrors) {
  const auto empty = *create_net_namespace();
  auto routes = *NetlinkSocket::open_in(empty.get(), NETLINK_ROUTE);
  EXPECT_TRUE(bring_loopback_up(routes));
  EXPECT_TRUE(bring_loopback_up(routes));
  EXPECT_FALSE(add_local_default_route(routes, 250));
  EXPECT_TRUE(add_local_default_route(routes, AF_INET)) << "an error leaves the socket usable";
  EXPECT_FALSE(NetlinkSocket::open(9999));
}

}  // namespace
}  // namespace pons::linux
