#include "relay.h"

#include <fmt/format.h>

#include <array>

#include "pons/http/http2.h"
#include "relay_fixture.h"

namespace pons::egress {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class RelayTest : public RelayFixture {
 protected:
  void run(http::Handler host, const std::function<Task<>(http::Http2Client&)>& client) {
    auto [to_host, host_end] = make_line();
    auto [to_relay, relay_end] = make_line();
    linux::TaskGroup tasks(*loop_);
    Relay relay(*boundary_, sandbox_, origin(), std::move(to_host), Relay::Version::kHttp2);
    tasks.spawn(http::serve_http2(*loop_, std::move(host_end), {.role = "host"}, {},
                                  std::move(host), "https"));
    http::Http2Limits limits;
    limits.leave_time = std::chrono::milliseconds(10);
    tasks.spawn(http::serve_http2(
        *loop_, std::move(relay_end), {.role = "sandbox"}, limits,
        [&relay](http::Exchange& exchange) { return relay.handle(exchange); }, "https"));
    http::Http2Client asking(*loop_, std::move(to_relay), std::string(kHost), "https");
    tasks.spawn(to_the_end(client(asking)));
    loop_->run();
    tasks.cancel_all();
  }
  http::ClientRequest get(std::string target) {
    return {.target = std::move(target), .fields = {{"authorization", "Bearer " + stub()}}};
  }
  static Task<> fetch(http::Http2Client& client, http::ClientRequest request, std::string& into,
                      linux::Event* done = nullptr) {
    auto response = co_await client.send(std::move(request));
    into = response ? fmt::format("{} ", response->head().status) : response.error().describe();
    while (response) {
      const auto piece = co_await response->read_body();
      if (!piece) into += "(cut)";
      if (!piece || piece->empty()) break;
      into += *piece;
    }
    if (done != nullptr) done->set();
  }
};

Task<> echo(http::Exchange& exchange) {
  exchange.respond(
      {.body = std::string(exchange.request().find("authorization").value_or("nothing"))});
  co_return;
}

TEST_F(RelayTest, TheHostGetsTheSecretAndTheClientTheStub) {
  std::string answer;
  std::string host_saw;
  run(
      [&](http::Exchange& exchange) {
        host_saw = exchange.request().find("authorization").value_or("");
        return echo(exchange);
      },
      [&](http::Http2Client& client) { return fetch(client, get("/"), answer); });
  EXPECT_EQ(host_saw, fmt::format("Bearer {}", kSecret));
  EXPECT_EQ(answer, "200 Bearer " + stub());
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"scrub")"));
}

// What one stream was judged by may be gone when another's answer comes.
TEST_F(RelayTest, StreamsThatOverlapAreJudgedEachOnItsOwn) {
  linux::Event release(*loop_);
  std::string slow;
  std::string fast;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        if (exchange.request().path() == "/slow") co_await release.wait(kNever);
        co_await echo(exchange);
      },
      [&](http::Http2Client& client) -> Task<> {
        linux::TaskGroup group(*loop_);
        linux::Event done(*loop_);
        group.spawn(fetch(client, get("/slow"), slow, &done));
        for (int i = 0; i < 3; ++i) co_await fetch(client, get("/fast"), fast);
        release.set();
        co_await done.wait(kNever);
      });
  EXPECT_EQ(fast, "200 Bearer " + stub());
  EXPECT_EQ(slow, "200 Bearer " + stub());
}

TEST_F(RelayTest, ARequestThatItsClientGivesUpIsRecordedAllTheSame) {
  bool host_saw_it = false;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        host_saw_it = true;
        co_await exchange.loop().sleep_until(kNever);
      },
      [&](http::Http2Client& client) -> Task<> {
        std::string answer;
        {
          linux::TaskGroup group(*loop_);
          group.spawn(fetch(client, get("/given-up"), answer));
          while (!host_saw_it) co_await loop_->sleep_for(std::chrono::milliseconds(1));
        }  // resets the stream
        for (int i = 0; i < 1000 && sandbox_->traffic.requests == 1; ++i) {
          if (logged().contains("cancelled")) break;
          co_await loop_->sleep_for(std::chrono::milliseconds(1));
        }
      });
  const std::string log = logged();
  EXPECT_THAT(log, HasSubstr(R"("code":"cancelled")"));
  EXPECT_THAT(log, HasSubstr("/given-up"));
  EXPECT_THAT(log, HasSubstr("TOKEN"));
}

TEST_F(RelayTest, AnAnswerIsNotDeliveredAfterItsCredentialIsGone) {
  std::string answer;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        EXPECT_TRUE(vault_->remove("TOKEN"));
        co_await echo(exchange);
      },
      [&](http::Http2Client& client) { return fetch(client, get("/"), answer); });
  EXPECT_THAT(answer, HasSubstr("rules_changed"));
  EXPECT_THAT(answer, Not(HasSubstr(std::string(kSecret))));
}

TEST_F(RelayTest, WhatIsRevokedBetweenVerdictAndSendingDoesNotLeave) {
  bool host_saw_it = false;
  std::string answer;
  run(
      [&](http::Exchange& exchange) {
        host_saw_it = true;
        return echo(exchange);
      },
      [&](http::Http2Client& client) -> Task<> {
        int given = 0;
        http::ClientRequest request = get("/");
        request.method = "POST";
        request.body_bytes = 2;
        request.body_source = [&]() -> Task<Result<std::string_view>> {
          if (given++ > 0) co_return std::string_view();
          while (sandbox_->traffic.requests == 0)
            co_await loop_->sleep_for(std::chrono::milliseconds(1));  // then its head is judged
          EXPECT_TRUE(vault_->remove("TOKEN"));
          co_return std::string_view("ok");
        };
        co_await fetch(client, std::move(request), answer);
      });
  EXPECT_THAT(answer, HasSubstr("rules_changed"));
  EXPECT_FALSE(host_saw_it);
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"block")"));
}

TEST_F(RelayTest, AStubInTheBodyStopsTheRequestHoweverLongItIs) {
  std::string answer;
  std::string host_got;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        for (;;) {
          const auto piece = co_await exchange.read_body();
          if (!piece || piece->empty()) break;
          host_got += *piece;
        }
        co_await echo(exchange);
      },
      [&](http::Http2Client& client) -> Task<> {
        for (const std::size_t size : {10UZ, 500'000UZ}) {
          http::ClientRequest request = get("/");
          request.method = "POST";
          request.body = std::string(size, 'x') + stub();
          co_await fetch(client, std::move(request), answer);
          EXPECT_THAT(answer, HasSubstr("undeclared_position"));
        }
      });
  EXPECT_THAT(host_got, Not(HasSubstr(stub())));
  EXPECT_THAT(logged(), Not(HasSubstr(stub())));
}

TEST_F(RelayTest, TrailersPassWhenTheyAreCleanAndStopTheRequestWhenNot) {
  std::string answer;
  std::string host_got;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        const auto body = co_await exchange.read_whole_body(1 << 20);
        for (const auto& [name, value] : exchange.trailers())
          host_got += fmt::format("{}={} ", name, value);
        if (body) co_await echo(exchange);
      },
      [&](http::Http2Client& client) -> Task<> {
        for (const std::size_t size : {10UZ, 300'000UZ}) {
          for (const std::string& value : {std::string("clean"), stub(), std::string(kSecret)}) {
            const std::string body(size, 'x');
            std::size_t given = 0;
            http::ClientRequest request = get("/");
            request.method = "POST";
            request.body_source = [&]() -> Task<Result<std::string_view>> {
              if (given > 0) co_await loop_->sleep_for(std::chrono::milliseconds(5));
              const std::string_view piece =
                  std::string_view(body).substr(std::min(given, size), 50'000);
              given += piece.size();
              co_return piece;
            };
            request.trailers = [&] { return http::OwnedFields{{"x-sum", value}}; };
            co_await fetch(client, std::move(request), answer);
            if (value == "clean")
              EXPECT_THAT(answer, HasSubstr("200"));
            else
              EXPECT_THAT(answer, Not(HasSubstr("200 "))) << size;
          }
        }
      });
  EXPECT_EQ(host_got, "x-sum=clean x-sum=clean ");
  EXPECT_THAT(logged(), Not(HasSubstr(stub())));
}

// A call in both directions: its client says something, and waits for what the host says to it.
TEST_F(RelayTest, AnAnswerIsHeardBeforeTheBodyEnds) {
  std::vector<std::string> host_heard;
  std::string client_heard;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        EXPECT_TRUE(co_await exchange.start({}));
        for (;;) {
          const auto piece = co_await exchange.read_body();
          if (!piece || piece->empty()) break;
          host_heard.emplace_back(*piece);
          EXPECT_TRUE(co_await exchange.write(fmt::format("{}!", *piece)));
        }
        EXPECT_TRUE(co_await exchange.finish(""));
      },
      [&](http::Http2Client& client) -> Task<> {
        linux::Event answered(*loop_);
        int said = 0;
        http::ClientRequest request = get("/");
        request.method = "POST";
        request.body_source = [&]() -> Task<Result<std::string_view>> {
          static constexpr std::array<std::string_view, 3> kWords = {"one", "two", ""};
          if (said > 0) co_await answered.wait(kNever);
          answered.reset();
          co_return kWords.at(static_cast<std::size_t>(said++));
        };
        auto response = co_await client.send(std::move(request));
        EXPECT_TRUE(response);
        while (response) {
          const auto piece = co_await response->read_body();
          if (!piece || piece->empty()) break;
          client_heard += *piece;
          answered.set();
        }
      });
  EXPECT_EQ(host_heard, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(client_heard, "one!two!");
}

TEST_F(RelayTest, WhatIsStoppedAfterItsHeadHasLeftIsRecordedAsCut) {
  std::string answer;
  run(
      [&](http::Exchange& exchange) -> Task<> {
        while (true) {
          const auto piece = co_await exchange.read_body();
          if (!piece || piece->empty()) break;
        }
        co_await echo(exchange);
      },
      [&](http::Http2Client& client) -> Task<> {
        for (const std::size_t size : {10UZ, 500'000UZ}) {
          http::ClientRequest request = get("/");
          request.method = "POST";
          request.body = std::string(size, 'x') + stub();
          co_await fetch(client, std::move(request), answer);
        }
      });
  const std::string log = logged();
  EXPECT_THAT(log, ContainsRegex(R"("verdict":"block"[^\n]*"code":"undeclared_position")"));
  EXPECT_THAT(log, ContainsRegex(R"("verdict":"cut"[^\n]*"code":"undeclared_position")"));
}

// A client that takes nothing, on many connections with many streams each.
TEST_F(RelayTest, WhatHostsSendToShutWindowsIsBounded) {
  constexpr int kConnections = 40;
  constexpr int kStreams = 12;
  std::uint64_t sent = 0;
  http::Http2Limits shut = http::Http2Limits::for_client();
  struct Line {
    std::unique_ptr<Relay> relay;
    std::unique_ptr<http::Http2Client> client;
    std::vector<http::Http2Response> answers;
  };
  std::vector<Line> lines(kConnections);
  linux::TaskGroup tasks(*loop_);
  const auto pour = [&sent](http::Exchange& exchange) -> Task<> {
    const std::string piece(64 * 1024, 'x');
    if (!co_await exchange.start({})) co_return;
    while (co_await exchange.write(piece)) sent += piece.size();
  };
  for (Line& line : lines) {
    auto [to_host, host_end] = make_line();
    auto [to_relay, relay_end] = make_line();
    line.relay = std::make_unique<Relay>(*boundary_, sandbox_, origin(), std::move(to_host),
                                         Relay::Version::kHttp2);
    tasks.spawn(http::serve_http2(*loop_, std::move(host_end), {.role = "host"}, {}, pour));
    tasks.spawn(http::serve_http2(
        *loop_, std::move(relay_end), {.role = "sandbox"}, {},
        [&relay = *line.relay](http::Exchange& exchange) { return relay.handle(exchange); }));
    shut.stream_window = 64 * 1024;
    shut.connection_window = 64 * 1024;
    line.client = std::make_unique<http::Http2Client>(*loop_, std::move(to_relay),
                                                      std::string(kHost), "https", shut);
  }
  tasks.spawn(to_the_end([](std::vector<Line>& all, linux::Loop& loop, std::uint64_t& sent_bytes,
                            std::string authorization) -> Task<> {
    for (Line& line : all)
      for (int i = 0; i < kStreams; ++i) {
        auto answer = co_await line.client->send({.fields = {{"authorization", authorization}}});
        EXPECT_TRUE(answer);
        if (answer) line.answers.push_back(std::move(*answer));
      }
    for (std::uint64_t before = UINT64_MAX; before != sent_bytes;) {
      before = sent_bytes;
      co_await loop.sleep_for(std::chrono::milliseconds(200));
    }
  }(lines, *loop_, sent, "Bearer " + stub())));
  loop_->run();
  // Beside what egress holds there are the client's windows, and what sockets and hosts hold.
  constexpr std::uint64_t kElsewhere = kConnections * (64 * 1024 + 512 * 1024);
  EXPECT_LT(sent, kBodyMemoryOfSandbox + kElsewhere + kConnections * kStreams * 64 * 1024);
  EXPECT_LE(sandbox_->body_memory, kBodyMemoryOfSandbox);
  for (Line& line : lines) line.answers.clear();
  for (Line& line : lines) line.client.reset();
  tasks.cancel_all();
  for (Line& line : lines) line.relay.reset();
  EXPECT_EQ(sandbox_->body_memory, 0U) << "given back";
}

}  // namespace
}  // namespace pons::egress
