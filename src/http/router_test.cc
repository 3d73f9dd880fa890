// Routes and event streams, as a client meets them.

#include "pons/http/router.h"

#include "http_fixture.h"
#include "pons/http/client.h"

namespace pons::http {
namespace {

// Answers with its name and the values it got.
RouteHandler say(std::string name) {
  const auto respond = [](Exchange& exchange, std::string body) -> Task<> {
    exchange.respond({.content_type = "text/plain", .body = std::move(body)});
    co_return;
  };
  return [name, respond](Exchange& exchange, const PathValues& values) {
    std::string body = name;
    for (const std::string_view value : values) body += "|" + std::string(value);
    return respond(exchange, std::move(body));
  };
}

class RouterTest : public ServerTest {
 protected:
  RouterTest() {
    serve(route({{"GET", "/", say("root")},
                 {"GET", "/things", say("list")},
                 {"POST", "/things", say("create")},
                 {"GET", "/things/special", say("special")},
                 {"GET", "/things/{id}", say("one")},
                 {"PUT", "/things/{id}/parts/{part}", say("part")},
                 {"*", "/rest/{...}", say("rest")}}));
  }
  std::string ask(const std::string& method, const std::string& target) {
    TextPeer peer = dial();
    peer.send(method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return peer.read_answer(method);
  }
  std::string body_of(const std::string& method, const std::string& target) {
    const std::string answer = ask(method, target);
    return answer.substr(answer.find("\r\n\r\n") + 4);
  }
};

TEST_F(RouterTest, MethodAndPathChooseTheHandler) {
  EXPECT_EQ(body_of("GET", "/"), "root");
  EXPECT_EQ(body_of("GET", "/things"), "list");
  EXPECT_EQ(body_of("POST", "/things"), "create");
  EXPECT_EQ(body_of("GET", "/things?limit=5"), "list");
  EXPECT_EQ(body_of("GET", "http://a/things"), "list");
}

TEST_F(RouterTest, NamesInThePatternTakeOneSegmentEach) {
  EXPECT_EQ(body_of("GET", "/things/42"), "one|42");
  EXPECT_EQ(body_of("GET", "/things/special"), "special");
  EXPECT_EQ(body_of("PUT", "/things/42/parts/a%2Fb"), "part|42|a%2Fb");
}

TEST_F(RouterTest, TheRestOfAPathIsTakenWholeAndByAnyMethod) {
  EXPECT_EQ(body_of("GET", "/rest/a/b/c"), "rest|a/b/c");
  EXPECT_EQ(body_of("PATCH", "/rest/a"), "rest|a");
  EXPECT_TRUE(ask("GET", "/rest/").starts_with("HTTP/1.1 404"));
}

TEST_F(RouterTest, WhatDoesNotMatchIsNotFound) {
  for (const auto* target : {"/thing", "/things/", "/things/42/", "/things/42/parts",
                             "/things//parts/1", "//", "/THINGS", "/things/../things"})
    EXPECT_TRUE(ask("GET", target).starts_with("HTTP/1.1 404 ")) << target;
  EXPECT_TRUE(ask("OPTIONS", "*").starts_with("HTTP/1.1 404 "));
  EXPECT_TRUE(body_of("GET", "/none").contains("\"type\":\"not_found\""));
}

TEST_F(RouterTest, OtherMethodsAreToldWhatIsAllowed) {
  const std::string answer = ask("DELETE", "/things");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 405 ")) << answer;
  EXPECT_TRUE(answer.contains("\r\nAllow: GET, POST\r\n")) << answer;
  EXPECT_TRUE(ask("GET", "/things/1/parts/2").contains("\r\nAllow: PUT\r\n"));
  EXPECT_TRUE(ask("get", "/things").starts_with("HTTP/1.1 405 ")) << "methods have a case";
}

TEST_F(RouterTest, HeadIsAnsweredByTheGetRoute) {
  const std::string answer = ask("HEAD", "/things/42");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.contains("\r\nContent-Length: 6\r\n"));
  EXPECT_TRUE(ask("HEAD", "/things/1/parts/2").starts_with("HTTP/1.1 405 "));
}

// ---- event streams

constexpr std::uint64_t kEvents = 6;

// Events 1 to 6 after the one the client has seen. The connection breaks behind the third.
Task<> send_events(Exchange& exchange) {
  const auto seen = parse_last_event_id(exchange.request().find("Last-Event-ID"));
  if (!seen) co_return exchange.respond(error_response(400, "invalid_request", "bad id"));
  expect_ok(co_await exchange.start_events());
  for (std::uint64_t i = seen->value_or(0) + 1; i <= kEvents; ++i) {
    const std::string id = std::to_string(i);
    expect_ok(co_await exchange.send_event({.id = id, .event = "step", .data = "line\nof " + id}));
    expect_ok(co_await exchange.write(kEventStreamKeepAlive));
    if (i == 3 && !*seen) co_return exchange.abort();
  }
  EXPECT_FALSE(co_await exchange.send_event({.id = "1\ndata: forged"}));
  expect_ok(co_await exchange.finish());
}

// Reads until the stream ends, and connects again where it broke.
Task<std::vector<std::string>> follow(linux::Loop& loop, std::uint16_t port) {
  Client client(loop, tcp_connector(loop, "127.0.0.1", port), "origin");
  std::vector<std::string> heard;
  std::string last_id;
  for (int connection = 1; connection <= 2; ++connection) {
    ClientRequest request;
    if (!last_id.empty()) request.fields = {{"Last-Event-ID", last_id}};
    auto response = co_await client.send(std::move(request));
    if (!response) break;
    EXPECT_EQ(response->find("Content-Type"), "text/event-stream");
    EXPECT_EQ(response->find("Cache-Control"), "no-store");
    EventStreamParser parser;
    for (;;) {
      const auto piece = co_await response->read_body();
      if (!piece) heard.push_back("broken");
      if (!piece || piece->empty()) break;
      expect_ok(parser.feed(*piece, [&](const ServerEvent& event) {
        heard.push_back(event.id + " " + event.event + " " + event.data);
      }));
    }
    last_id = parser.last_event_id();
  }
  co_return heard;
}

TEST_F(RouterTest, EventStreamGoesOnWhereItBroke) {
  stop();
  serve(send_events);
  const auto heard = thread_.await([&] { return follow(thread_.loop(), port_); });
  EXPECT_EQ(heard, (std::vector<std::string>{"1 step line\nof 1", "2 step line\nof 2",
                                             "3 step line\nof 3", "broken", "4 step line\nof 4",
                                             "5 step line\nof 5", "6 step line\nof 6"}));
}

TEST_F(RouterTest, EventStreamRefusesAnIdThatIsNone) {
  stop();
  serve(send_events);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\nLast-Event-ID: -1\r\n\r\n");
  EXPECT_TRUE(peer.read_answer().starts_with("HTTP/1.1 400 "));
}

TEST_F(RouterTest, EachEventArrivesWhenItIsSent) {
  stop();
  const auto send_one_and_wait = [](Exchange& exchange) -> Task<> {
    expect_ok(co_await exchange.start_events());
    expect_ok(co_await exchange.send_event({.id = "1", .data = "now"}));
    co_await exchange.wait_for_hang_up(kNever);
  };
  serve(send_one_and_wait);
  TextPeer peer = dial();
  peer.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  peer.read_head();
  EXPECT_TRUE(peer.read_until("data: now\n\n").ends_with("id: 1\ndata: now\n\n"));
  peer.close();
  EXPECT_TRUE(eventually_has_connections(0));
}

}  // namespace
}  // namespace pons::http
