#include <fmt/format.h>

#include "pons/http/server.h"
#include "relay_fixture.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): run() keeps the lambdas that it
// is given for as long as their coroutines run.

namespace pons::egress {
namespace {

using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);

class WebSocketRelayTest : public RelayFixture {
 protected:
  using Talk = std::function<Task<>(http::WebSocket&)>;

  // `host` talks to the relay, `client` too, from the other side.
  void run(const Talk& host, const Talk& client, http::OwnedFields fields = {},
           RelayLimits limits = {}) {
    auto [to_host, host_end] = make_line();
    auto [to_relay, relay_end] = make_line();
    client_line_ = std::move(to_relay);
    Relay relay(*boundary_, sandbox_, origin(), std::move(to_host), Relay::Version::kHttp1, limits);
    const http::Handler serve = [&](http::Exchange& exchange) { return accept(exchange, host); };
    const http::Handler carry = [&](http::Exchange& exchange) { return relay.handle(exchange); };
    http::Server host_server(*loop_, {}, serve);
    http::Server relay_server(*loop_, {}, carry);
    fields.emplace_back("Authorization", "Bearer " + stub());
    linux::TaskGroup tasks(*loop_);
    tasks.spawn(host_server.serve_here(std::move(host_end), {.role = "host"}));
    tasks.spawn(relay_server.serve_here(std::move(relay_end), {.role = "sandbox"}));
    tasks.spawn(to_the_end(open(client, std::move(fields))));
    loop_->run();
    tasks.cancel_all();
  }

  Task<> accept(http::Exchange& exchange, const Talk& host) {
    host_saw_ += exchange.request().find("authorization").value_or("nothing");
    auto socket = co_await exchange.accept_websocket();
    if (socket) co_await host(**socket);
  }
  Task<> open(const Talk& client, http::OwnedFields fields) {
    http::Client asking(*loop_, [this](TimePoint) { return give_line(); }, std::string(kHost));
    auto socket = co_await asking.open_websocket("/socket", std::move(fields));
    opened_ = socket.has_value();
    if (socket) co_await client(**socket);
    // The relay's record comes behind the end of its client.
    for (int i = 0; i < 4000 && !logged().contains(R"("seq":1)"); ++i)
      co_await loop_->sleep_for(std::chrono::milliseconds(1));
  }
  Task<> ping_always(http::WebSocket& socket) {
    while (co_await socket.ping()) co_await loop_->sleep_for(std::chrono::milliseconds(5));
  }
  Task<Result<std::unique_ptr<http::Transport>>> give_line() { co_return std::move(client_line_); }

  // Says back what it hears.
  Task<> echo(http::WebSocket& socket) {
    for (;;) {
      const auto message = co_await socket.receive(loop_->now() + kPatience);
      if (!message || !*message) co_return;
      host_heard_ += (*message)->payload;
      (void)co_await socket.send_text((*message)->payload);
    }
  }
  Task<std::string> hear(http::WebSocket& socket) {
    const auto message = co_await socket.receive(loop_->now() + kPatience);
    if (!message) co_return message.error().describe();
    co_return *message ? (*message)->payload : fmt::format("closed {}", socket.close_code());
  }
  Talk echoing() {
    return [this](http::WebSocket& socket) { return echo(socket); };
  }

  std::unique_ptr<http::Transport> client_line_;
  bool opened_ = false;
  std::string host_saw_;
  std::string host_heard_;
};

TEST_F(WebSocketRelayTest, TheHostGetsTheSecretOnceAndMessagesPass) {
  std::string answer;
  run(echoing(), [&](http::WebSocket& socket) -> Task<> {
    (void)co_await socket.send_text("hello");
    answer = co_await hear(socket);
    (void)co_await socket.close(1000, "");
  });
  EXPECT_EQ(host_saw_, fmt::format("Bearer {}", kSecret));
  EXPECT_EQ(answer, "hello");
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"swap")"));
}

TEST_F(WebSocketRelayTest, AStubInAMessageEndsItBeforeTheMessageLeaves) {
  std::string answer;
  run(echoing(), [&](http::WebSocket& socket) -> Task<> {
    (void)co_await socket.send_binary("x" + stub());
    answer = co_await hear(socket);
  });
  EXPECT_EQ(answer, "closed 1008");
  EXPECT_EQ(host_heard_, "");
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"cut","code":"undeclared_position")"));
}

TEST_F(WebSocketRelayTest, AMessageThatEndsInASecretIsScrubbedAndTheNextOnesPass) {
  std::vector<std::string> answers;
  run(
      [this](http::WebSocket& socket) -> Task<> {
        (void)co_await socket.send_text("you are " + std::string(kSecret));
        co_await echo(socket);
      },
      [&](http::WebSocket& socket) -> Task<> {
        answers.push_back(co_await hear(socket));
        (void)co_await socket.send_text("and who are you");
        answers.push_back(co_await hear(socket));
        (void)co_await socket.close(1000, "");
      });
  EXPECT_EQ(answers, (std::vector<std::string>{"you are " + stub(), "and who are you"}));
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"scrub")"));
}

TEST_F(WebSocketRelayTest, ASocketOnWhichNobodySpeaksEndsAndPingsDoNotCount) {
  std::string answer;
  run(echoing(),
      [&](http::WebSocket& socket) -> Task<> {
        linux::TaskGroup pinging(*loop_);
        pinging.spawn(ping_always(socket));
        answer = co_await hear(socket);
      },
      {}, {.message_idle = std::chrono::milliseconds(50)});
  EXPECT_EQ(answer, "closed 1001");
  EXPECT_THAT(logged(), HasSubstr(R"("verdict":"swap")"));
}

TEST_F(WebSocketRelayTest, AMessageOverTheLimitIsNotCarried) {
  std::string answer;
  run(echoing(),
      [&](http::WebSocket& socket) -> Task<> {
        (void)co_await socket.send_binary(std::string(1001, 'x'));
        answer = co_await hear(socket);
      },
      {}, {.message_bytes = 1000});
  EXPECT_EQ(answer, "closed 1009");
  EXPECT_EQ(host_heard_, "");
  EXPECT_THAT(logged(), HasSubstr("malformed_request"));
}

TEST_F(WebSocketRelayTest, AForeignTokenAsSubprotocolOpensNothing) {
  run(echoing(), [](http::WebSocket&) -> Task<> { co_return; },
      {{"Sec-WebSocket-Protocol", "realtime, key.sk-abcdefghijklmnopqrstuvwxyz"}});
  EXPECT_FALSE(opened_);
  EXPECT_EQ(host_saw_, "");
  EXPECT_THAT(logged(), HasSubstr("foreign_credential"));
}

}  // namespace
}  // namespace pons::egress

// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
