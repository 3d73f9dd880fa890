#include "pons/names/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>

#include <fmt/format.h>

#include "pons/linux/tcp.h"

namespace pons::names {
namespace {

using ::testing::ElementsAre;
using std::string_literals::operator""s;

HostName name(std::string_view text) {
  return HostName::parse(text).value();
}

std::string bytes_of(std::string_view address) {
  const auto parsed = IpAddress::parse(address).value();
  return {parsed.bytes().begin(), parsed.bytes().end()};
}

std::string give(const DnsQuery& query, std::string_view address, std::uint32_t ttl = 60) {
  const DnsAnswer answer{
      .type = query.question.type, .ttl_seconds = ttl, .data = bytes_of(address)};
  return write_dns_reply(query, DnsCode::kNoError, {&answer, 1});
}

// A name server on loopback that says what the test wants; UDP and TCP on one port.
class NameServerTest : public ::testing::Test {
 protected:
  // The datagrams to send for a query, in order.
  using Script = std::function<std::vector<std::string>(const DnsQuery&)>;

  void SetUp() override {
    loop_ = std::move(*linux::Loop::create());
    listener_ = linux::listen_tcp("127.0.0.1", 0).value();
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    udp_ = linux::UniqueFd(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(udp_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    loop_->spawn(serve_datagrams());
    loop_->spawn(serve_streams());
  }

  ResolverSettings settings() {
    ResolverSettings settings;
    settings.nameservers = {{.address = *IpAddress::parse("127.0.0.1"), .port = port_}};
    settings.attempt_time = std::chrono::milliseconds(200);
    return settings;
  }

  Result<ResolvedHost> resolve(Resolver& resolver, std::string_view text,
                               Duration patience = std::chrono::seconds(10)) {
    Result<ResolvedHost> result = Error{};
    loop_->spawn(resolve_into(resolver, name(text), patience, result));
    loop_->run();
    return result;
  }
  Result<ResolvedHost> resolve(std::string_view text) {
    Resolver resolver(*loop_, settings());
    return resolve(resolver, text);
  }

  Task<> resolve_into(Resolver& resolver, HostName host, Duration patience,
                      Result<ResolvedHost>& result, Resolver::Asker asker = Resolver::kOurselves) {
    co_await loop_->next_round();  // so that run() is there to be stopped
    result = co_await resolver.resolve(std::move(host), loop_->now() + patience, asker);
    loop_->stop();
  }

  // When the server has read what others asked: its socket holds only so much.
  Task<> ask_behind(Resolver& resolver, std::string_view text, Resolver::Asker asker,
                    Result<ResolvedHost>& result) {
    while (asked_.empty()) co_await loop_->next_round();
    co_await resolve_into(resolver, name(text), std::chrono::seconds(60), result, asker);
  }

  Task<> serve_datagrams() {
    auto watch = std::move(*linux::Watch::create(*loop_, udp_.get()));
    char buffer[2048];
    for (;;) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      const ssize_t got =
          recvfrom(udp_.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&peer), &size);
      if (got < 0) {
        co_await watch.readable(kNever);
        continue;
      }
      const auto query = parse_dns_query({buffer, static_cast<std::size_t>(got)}).value();
      asked_.push_back(fmt::format("{} {}", query.question.name, query.question.type));
      ids_.insert(query.id);
      ports_.insert(peer.sin_port);
      for (const std::string& reply : script_(query))
        sendto(udp_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&peer), size);
    }
  }

  Task<> serve_streams() {
    auto watch = std::move(*linux::Watch::create(*loop_, listener_.get()));
    for (;;) {
      const linux::UniqueFd peer(
          accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!peer) {
        co_await watch.readable(kNever);
        continue;
      }
      char buffer[2048];
      auto peer_watch = std::move(*linux::Watch::create(*loop_, peer.get()));
      ssize_t got = 0;
      while ((got = recv(peer.get(), buffer, sizeof buffer, 0)) < 0)
        co_await peer_watch.readable(kNever);
      if (got < 2) continue;
      const auto query = parse_dns_query({buffer + 2, static_cast<std::size_t>(got) - 2}).value();
      const std::string reply = stream_script_(query);
      EXPECT_EQ(send(peer.get(), reply.data(), reply.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(reply.size()));
    }
  }

  Script script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    return {give(query, query.question.type == kDnsA ? "93.184.216.34" : "2606:2800::1")};
  };
  std::function<std::string(const DnsQuery&)> stream_script_;
  std::vector<std::string> asked_;
  std::set<std::uint16_t> ids_;
  std::set<std::uint16_t> ports_;
  std::uint16_t port_ = 0;
  linux::UniqueFd listener_;
  linux::UniqueFd udp_;
  std::unique_ptr<linux::Loop> loop_;  // last: its tasks use all of the above
};

std::vector<std::string> texts(const std::vector<IpAddress>& addresses) {
  std::vector<std::string> result;
  for (const IpAddress& address : addresses) result.push_back(address.to_text());
  return result;
}

TEST_F(NameServerTest, BothFamiliesAreAskedAndTheAnswerIsKept) {
  Resolver resolver(*loop_, settings());
  const auto host = resolve(resolver, "example.com");
  ASSERT_TRUE(host) << host.error().describe();
  EXPECT_THAT(texts(host->addresses), ElementsAre("2606:2800::1", "93.184.216.34"));
  EXPECT_THAT(asked_, ::testing::UnorderedElementsAre("example.com 1", "example.com 28"));
  ASSERT_TRUE(resolve(resolver, "example.com"));
  EXPECT_EQ(asked_.size(), 2U);
}

TEST_F(NameServerTest, AnAnswerWithoutTimeToLiveIsAskedForAgain) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    return {give(query, query.question.type == kDnsA ? "1.2.3.4" : "2606::1", 0)};
  };
  Resolver resolver(*loop_, settings());
  ASSERT_TRUE(resolve(resolver, "rebind.example"));
  ASSERT_TRUE(resolve(resolver, "rebind.example"));
  EXPECT_EQ(asked_.size(), 4U);
  EXPECT_EQ(resolver.cached(), 0U);
}

TEST_F(NameServerTest, IdsAndPortsCannotBeGuessed) {
  Resolver resolver(*loop_, settings());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(resolve(resolver, fmt::format("n{}.example", i)));
  EXPECT_GT(ids_.size(), 90U);
  EXPECT_GT(ports_.size(), 50U);
}

TEST_F(NameServerTest, ForgedAnswersAreNotTaken) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    DnsQuery other_id = query;
    ++other_id.id;
    DnsQuery other_name = query;
    other_name.question_bytes =
        "\4evil\3com\0"s + query.question_bytes.substr(query.question_bytes.size() - 4);
    const bool is_a = query.question.type == kDnsA;
    const char* evil = is_a ? "6.6.6.6" : "2606:6666::6";
    return {"",
            "x",
            give(other_id, evil),
            give(other_name, evil),
            std::string(1232, '\xff'),
            give(query, is_a ? "93.184.216.34" : "2606:2800::1")};
  };
  const auto host = resolve("example.com");
  ASSERT_TRUE(host);
  EXPECT_THAT(texts(host->addresses), ElementsAre("2606:2800::1", "93.184.216.34"));
}

TEST_F(NameServerTest, AFloodOfForgedAnswersEndsInARefusal) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    DnsQuery other = query;
    ++other.id;
    return std::vector<std::string>(100,
                                    give(other, query.question.type == kDnsA ? "6.6.6.6" : "::6"));
  };
  const auto host = resolve("example.com");
  ASSERT_FALSE(host);
  EXPECT_EQ(host.error().code, ErrorCode::kUnavailable);
}

TEST_F(NameServerTest, AddressesOfOtherNamesInTheAnswerDoNotCount) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    if (query.question.type == kDnsAaaa) return {write_dns_reply(query, DnsCode::kNoError)};
    std::string reply = give(query, "93.184.216.34");
    reply.replace(6, 2, "\0\2"s);  // two answers; the second is about another name
    std::string extra = "\4evil\3com\0\0\1\0\1\0\0\0\1\0\4"s + bytes_of("6.6.6.6");
    return {reply.substr(0, reply.size() - 11) + extra + reply.substr(reply.size() - 11)};
  };
  const auto host = resolve("example.com");
  ASSERT_TRUE(host) << host.error().describe();
  EXPECT_THAT(texts(host->addresses), ElementsAre("93.184.216.34"));
}

TEST_F(NameServerTest, AliasesAreFollowedAndRecorded) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    if (query.question.type == kDnsAaaa) return {write_dns_reply(query, DnsCode::kNoError)};
    DnsQuery plain = query;
    plain.has_edns = false;
    const DnsAnswer alias{
        .type = kDnsCname, .ttl_seconds = 9, .data = encode_dns_name(name("cdn.other.net"))};
    std::string reply = write_dns_reply(plain, DnsCode::kNoError, {&alias, 1});
    reply.replace(6, 2, "\0\2"s);
    return {reply + encode_dns_name(name("cdn.other.net")) + "\0\1\0\1\0\0\0\1\0\4"s +
            bytes_of("93.184.216.34")};
  };
  const auto host = resolve("www.example.com");
  ASSERT_TRUE(host) << host.error().describe();
  EXPECT_THAT(host->aliases, ElementsAre("cdn.other.net"));
  EXPECT_THAT(texts(host->addresses), ElementsAre("93.184.216.34"));
}

TEST_F(NameServerTest, ALoopOfAliasesEnds) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    const DnsAnswer alias{
        .type = kDnsCname, .ttl_seconds = 9, .data = encode_dns_name(name("example.com"))};
    return {write_dns_reply(query, DnsCode::kNoError, {&alias, 1})};
  };
  EXPECT_EQ(resolve("example.com").error().code, ErrorCode::kNotFound);
}

TEST_F(NameServerTest, WhatDoesNotFitIsAskedForByTcp) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    std::string reply = write_dns_reply(query, DnsCode::kNoError);
    reply[2] = static_cast<char>(reply[2] | 2);
    return {reply};
  };
  stream_script_ = [](const DnsQuery& query) {
    return frame_for_tcp(
        give(query, query.question.type == kDnsA ? "93.184.216.34" : "2606:2800::1"));
  };
  const auto host = resolve("example.com");
  ASSERT_TRUE(host) << host.error().describe();
  EXPECT_EQ(host->addresses.size(), 2U);

  stream_script_ = [](const DnsQuery& query) {
    DnsQuery other = query;
    ++other.id;
    return frame_for_tcp(give(other, query.question.type == kDnsA ? "6.6.6.6" : "::6"));
  };
  EXPECT_FALSE(resolve("example.com"));
  stream_script_ = [](const DnsQuery&) { return "\xff\xff"s + "cut"; };
  EXPECT_FALSE(resolve("example.com"));
}

TEST_F(NameServerTest, ANameThatDoesNotExistIsNotFound) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    return {write_dns_reply(query, DnsCode::kNoSuchName)};
  };
  EXPECT_EQ(resolve("nowhere.example").error().code, ErrorCode::kNotFound);
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    return {write_dns_reply(query, DnsCode::kNoError)};
  };
  EXPECT_EQ(resolve("empty.example").error().code, ErrorCode::kNotFound);
}

TEST_F(NameServerTest, OneFamilyIsEnough) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    if (query.question.type == kDnsAaaa) return {write_dns_reply(query, DnsCode::kServerFailure)};
    return {give(query, "93.184.216.34")};
  };
  const auto host = resolve("example.com");
  ASSERT_TRUE(host);
  EXPECT_THAT(texts(host->addresses), ElementsAre("93.184.216.34"));
}

TEST_F(NameServerTest, TheNextServerIsAskedWhenOneIsSilentOrBroken) {
  auto two = settings();
  two.nameservers.insert(two.nameservers.begin(),
                         {.address = *IpAddress::parse("127.0.0.1"), .port = 1});
  Resolver resolver(*loop_, two);
  EXPECT_TRUE(resolve(resolver, "example.com"));
}

TEST_F(NameServerTest, SilenceEndsAtTheDeadline) {
  script_ = [](const DnsQuery&) { return std::vector<std::string>(); };
  EXPECT_EQ(resolve("example.com").error().code, ErrorCode::kTimeout);
  Resolver resolver(*loop_, settings());
  EXPECT_EQ(resolve(resolver, "example.com", std::chrono::milliseconds(20)).error().code,
            ErrorCode::kTimeout);
}

TEST_F(NameServerTest, ManyWhoWantOneNameAskOnce) {
  Resolver resolver(*loop_, settings());
  Result<ResolvedHost> first = Error{};
  Result<ResolvedHost> second = Error{};
  loop_->spawn(resolve_into(resolver, name("example.com"), std::chrono::seconds(10), first));
  loop_->spawn(resolve_into(resolver, name("example.com"), std::chrono::seconds(10), second));
  loop_->run();
  if (!first || !second) loop_->run();
  EXPECT_TRUE(first && second);
  EXPECT_EQ(asked_.size(), 2U);
}

TEST_F(NameServerTest, WhoeverAsksForManyNamesLeavesRoomForOthers) {
  script_ = [](const DnsQuery& query) -> std::vector<std::string> {
    if (query.question.name.starts_with("slow")) return {};
    return {give(query, query.question.type == kDnsA ? "93.184.216.34" : "2606:2800::1")};
  };
  auto patient = settings();
  patient.attempt_time = std::chrono::seconds(30);
  Resolver resolver(*loop_, patient);
  std::vector<Result<ResolvedHost>> flood(40 * 20, Error{});
  Result<ResolvedHost> other = Error{};
  linux::TaskGroup tasks(*loop_);
  for (std::size_t i = 0; i < flood.size(); ++i)
    tasks.spawn(resolve_into(resolver, name(fmt::format("slow{}.example", i)),
                             std::chrono::seconds(60), flood[i], 1 + i / 40));
  tasks.spawn(ask_behind(resolver, "example.com", 1000, other));
  while (!other && other.error().message.empty()) loop_->run();
  EXPECT_TRUE(other) << other.error().describe();
  const auto refused = [&](std::size_t asker) {
    return std::ranges::count_if(
        flood.begin() + static_cast<std::ptrdiff_t>(40 * (asker - 1)),
        flood.begin() + static_cast<std::ptrdiff_t>(40 * asker),
        [](const auto& one) { return !one && one.error().code == ErrorCode::kLimit; });
  };
  EXPECT_EQ(refused(1), 8);
  EXPECT_GT(refused(20), 30);
}

TEST_F(NameServerTest, TheHostsFileComesFirst) {
  auto with_hosts = settings();
  with_hosts.hosts[name("db.corp")] = {*IpAddress::parse("10.0.0.5")};
  Resolver resolver(*loop_, with_hosts);
  EXPECT_THAT(texts(resolve(resolver, "DB.corp.").value().addresses), ElementsAre("10.0.0.5"));
  EXPECT_TRUE(asked_.empty());
}

TEST_F(NameServerTest, WhatIsKeptIsBounded) {
  Resolver resolver(*loop_, settings());
  for (int i = 0; i < 1100; ++i) ASSERT_TRUE(resolve(resolver, fmt::format("n{}.example", i)));
  EXPECT_LE(resolver.cached(), 1024U);
}

TEST(ResolverSettingsTest, TheMachinesFilesAreRead) {
  const auto settings = parse_resolver_settings(
      "# note\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nnameserver ::1 ; x\nsearch corp\n"
      "nameserver 10.0.0.54\nnameserver 10.0.0.55\noptions ndots:2 timeout:1 attempts:3 rotate\n",
      "127.0.0.1 localhost\n10.0.0.5\tdb.corp DB # note\n::1 localhost\nnonsense x\n10.0.0.6 "
      "a_b\n");
  ASSERT_EQ(settings.nameservers.size(), 3U);
  EXPECT_EQ(settings.nameservers[1].address.to_text(), "::1");
  EXPECT_EQ(settings.nameservers[2].address.to_text(), "10.0.0.54");
  EXPECT_EQ(settings.attempt_time, std::chrono::seconds(1));
  EXPECT_EQ(settings.attempts, 3U);
  EXPECT_EQ(settings.hosts.at(name("db")).size(), 1U);
  EXPECT_EQ(settings.hosts.at(name("localhost")).size(), 2U);
  EXPECT_EQ(settings.hosts.size(), 3U);
}

TEST(ResolverSettingsTest, WithoutFilesTheLocalServerIsAsked) {
  const auto settings = read_resolver_settings("/nonexistent");
  ASSERT_EQ(settings.nameservers.size(), 1U);
  EXPECT_EQ(settings.nameservers[0].address.to_text(), "127.0.0.1");
  const auto absurd =
      parse_resolver_settings("options timeout:0 attempts:99 timeout:9999999999\n", "");
  EXPECT_EQ(absurd.attempts, 5U);
  EXPECT_LE(absurd.attempt_time, std::chrono::seconds(30));
}

}  // namespace
}  // namespace pons::names
