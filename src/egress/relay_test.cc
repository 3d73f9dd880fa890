#include "relay.h"

#include <fmt/format.h>

#include "pons/http/http2.h"
#include "relay_fixture.h"

namespace pons::egress {
namespace {

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

}  // namespace
}  // namespace pons::egress
