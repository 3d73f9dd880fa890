#include "data_plane_fixture.h"
#include "pons/base/text.h"
#include "pons/http/server.h"

namespace pons::e2b {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A service inside: answers with what it was asked, or as the test says.
class PortTest : public DataPlaneTest {
 protected:
  PortTest() {
    provider_.open_ports = {3000};
    provider_.on_dial = [this](std::uint16_t) {
      EXPECT_TRUE(inside_.serve(std::move(provider_.dialled.back()), {.role = "inside"}));
      provider_.dialled.pop_back();
    };
  }
  http::ClientRequest to_port(std::string target, std::string port = "3000") {
    return {.target = std::move(target),
            .fields = {{"E2b-Sandbox-Id", "s1"}, {"E2b-Sandbox-Port", std::move(port)}}};
  }

  std::function<Task<>(http::Exchange&)> service_ = echo;
  http::Server inside_{*loop_, {}, [this](http::Exchange& e) { return service_(e); }};

 private:
  static Task<> echo(http::Exchange& exchange) {
    const http::RequestHead& head = exchange.request();
    std::string text = std::string(head.method) + " " + std::string(head.target) + "\n";
    for (const http::Field& field : head.fields)
      text += std::string(field.name) + ": " + std::string(field.value) + "\n";
    const auto body = co_await exchange.read_whole_body(1 << 20);
    text += "\n" + body.value_or("(cut)");
    exchange.respond(
        {.status = 201, .content_type = "text/x", .body = text, .fields = {{"X-A", "b"}}});
  }
};

TEST_F(PortTest, RequestAndAnswerPassAsTheyAre) {
  auto request = to_port("/p%20q?x=1&y");
  request.method = "PUT";
  request.body = "hello";
  request.fields.emplace_back("Authorization", "Bearer mine");
  const Reply reply = send(request);
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.fields.at("X-A"), "b");
  EXPECT_EQ(reply.fields.at("Content-Type"), "text/x");
  EXPECT_THAT(reply.body, HasSubstr("PUT /p%20q?x=1&y\n"));
  EXPECT_THAT(reply.body, HasSubstr("Authorization: Bearer mine\n"));
  EXPECT_THAT(reply.body, HasSubstr("Host: localhost:3000\n"));
  EXPECT_THAT(reply.body, HasSubstr("X-Forwarded-Host: box.test\n"));
  EXPECT_TRUE(reply.body.ends_with("\nhello"));
}

TEST_F(PortTest, TheHostLeadsToThePortToo) {
  auto request = to_port("/");
  request.fields = {{"Host", "3000-s1.box.test"}};
  EXPECT_EQ(send(request).status, 201);
}

TEST_F(PortTest, WhatIsMeantForUsStaysHere) {
  auto request = to_port("/");
  request.fields.emplace_back("X-Access-Token", "token-1");
  request.fields.emplace_back("E2b-Traffic-Access-Token", "t");
  request.fields.emplace_back("Connection", "X-Private");
  request.fields.emplace_back("X-Private", "p");
  request.fields.emplace_back("TE", "trailers");
  request.fields.emplace_back("X-Forwarded-For", "forged");
  const std::string body = send(request).body;
  for (const char* hidden : {"token-1", "E2b-", "X-Private", "TE:", "forged"})
    EXPECT_THAT(body, Not(HasSubstr(hidden)));
  // A service may have a token of its own under the same name.
  request.fields[2].second = "of-the-service";
  EXPECT_THAT(send(request).body, HasSubstr("of-the-service"));
}

TEST_F(PortTest, AServerSeesTheHostThatWasChosenForIt) {
  add_sandbox({.sandbox = "s2", .project = "p", .mask_host = "h-${PORT}.example"});
  auto request = to_port("/");
  request.fields[0].second = "s2";
  EXPECT_THAT(send(request).body, HasSubstr("Host: h-3000.example\n"));
}

TEST_F(PortTest, TheTrafficTokenGuardsThePorts) {
  add_sandbox({.sandbox = "s2", .project = "p", .access_token = "a", .traffic_token = "traffic"});
  auto request = to_port("/");
  request.fields[0].second = "s2";
  request.fields.emplace_back("X-Access-Token", "a");
  EXPECT_EQ(send(request).status, 403);
  request.fields.emplace_back("E2b-Traffic-Access-Token", "traffix");
  EXPECT_EQ(send(request).status, 403);
  request.fields.back().second = "traffic";
  EXPECT_EQ(send(request).status, 201);
}

TEST_F(PortTest, AClosedPortAndAMissingSandboxAreToldApart) {
  const Reply closed = send(to_port("/", "4000"));
  EXPECT_EQ(closed.status, 502);
  EXPECT_EQ(json_of(closed)["message"], "The sandbox is running but port is not open");
  EXPECT_EQ(json_of(closed)["port"], 4000);
  provider_.sandboxes.clear();
  EXPECT_EQ(json_of(send(to_port("/")))["message"], "The sandbox was not found");
}

TEST_F(PortTest, ASleepingSandboxIsWokenByTraffic) {
  add_sandbox({.sandbox = "s2", .project = "p", .auto_resume = true}, State::kPaused);
  auto request = to_port("/");
  request.fields[0].second = "s2";
  EXPECT_EQ(send(request).status, 201);
  EXPECT_EQ(provider_.resumes, 1);
  provider_.sandboxes.at("s1").state = State::kPaused;
  EXPECT_EQ(send(to_port("/")).status, 502);
}

Task<> drip(http::Exchange& exchange) {
  (void)co_await exchange.start({.content_type = "text/event-stream"});
  (void)co_await exchange.write("first");
  // Comes to its end only when the other side has gone.
  (void)co_await exchange.wait_for_hang_up(kNever);
}

TEST_F(PortTest, AnAnswerFlowsAndALeavingClientEndsIt) {
  bool left = false;
  service_ = [&left](http::Exchange& exchange) {
    struct Work {
      static Task<> run(http::Exchange& e, bool& gone) {
        co_await drip(e);
        gone = true;
      }
    };
    return Work::run(exchange, left);
  };
  {
    linux::TaskGroup group(*loop_);
    std::string got;
    struct Reader {
      static Task<> run(http::Client& client, http::ClientRequest request, std::string& out) {
        auto response = co_await client.send(std::move(request));
        const auto piece = co_await response->read_body();
        out = *piece;
        (void)co_await response->read_body();
      }
    };
    group.spawn(Reader::run(client_, to_port("/events"), got));
    run_until([&] { return got == "first"; });
  }
  run_until([&] { return left; });
}

TEST_F(PortTest, ALargeBodyIsPassedOnInPieces) {
  service_ = [](http::Exchange& exchange) {
    struct Work {
      static Task<> run(http::Exchange& e) {
        std::size_t size = 0;
        for (;;) {
          const auto piece = co_await e.read_body();
          if (!piece || piece->empty()) break;
          size += piece->size();
        }
        e.respond({.body = std::to_string(size)});
      }
    };
    return Work::run(exchange);
  };
  auto request = to_port("/");
  request.method = "POST";
  request.body = std::string(3'000'000, 'x');
  EXPECT_EQ(send(request).body, "3000000");
}

Task<> echo_messages(http::Exchange& exchange) {
  auto socket = co_await exchange.accept_websocket({}, "chat");
  if (!socket) co_return;
  for (;;) {
    const auto message = co_await (*socket)->receive(kNever);
    if (!message || !*message) break;
    (void)co_await (*socket)->send_text("echo " + (*message)->payload);
  }
}

TEST_F(PortTest, WebSocketsPass) {
  service_ = echo_messages;
  struct Talk {
    static Task<std::string> run(http::Client& client) {
      auto socket =
          co_await client.open_websocket("/ws", {{"E2b-Sandbox-Id", "s1"},
                                                 {"E2b-Sandbox-Port", "3000"},
                                                 {"Sec-WebSocket-Protocol", "other, chat"}});
      if (!socket) co_return socket.error().describe();
      (void)co_await (*socket)->send_text("hi");
      const auto message = co_await (*socket)->receive(kNever);
      std::string heard = (*message)->payload + " " + (*socket)->subprotocol();
      (void)co_await (*socket)->close(1000, "");
      (void)co_await (*socket)->receive(kNever);
      co_return heard;
    }
  };
  EXPECT_EQ(run(Talk::run(client_)), "echo hi chat");
}

TEST_F(PortTest, AServiceThatTalksNonsenseIsABadGateway) {
  provider_.on_dial = [this](std::uint16_t) {
    CHECK(::write(provider_.dialled.back().get(), "garbage\r\n\r\n", 11) == 11);
    provider_.dialled.clear();
  };
  EXPECT_EQ(send(to_port("/")).status, 502);
}

}  // namespace
}  // namespace pons::e2b
