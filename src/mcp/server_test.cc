#include "server_fixture.h"

namespace pons::mcp {
namespace {

TEST_F(ServerTest, ASessionBeginsWithInitialize) {
  const Answer hello = greet("2025-06-18");
  EXPECT_EQ(hello.status, 200);
  EXPECT_TRUE(hello.session.starts_with("mcp_")) << hello.session;
  const Json result = hello.message().at("result");
  EXPECT_EQ(result.at("protocolVersion"), "2025-06-18");
  EXPECT_TRUE(result.at("capabilities").contains("tools"));
  EXPECT_EQ(result.at("serverInfo").at("name"), "pons");
  EXPECT_EQ(ask(hello.session, R"({"jsonrpc":"2.0","method":"notifications/initialized"})").status,
            202);
}

TEST_F(ServerTest, AVersionNobodyKnowsIsAnsweredWithTheNewest) {
  EXPECT_EQ(greet("1999-01-01").message().at("result").at("protocolVersion"), kVersions.front());
  EXPECT_EQ(ask("", request("initialize")).error_code(), kInvalidParams);
  EXPECT_EQ(server_->session_count(), 1U);
}

TEST_F(ServerTest, ToolsAreListedAndCalled) {
  const std::string session = begin();
  EXPECT_EQ(ask(session, request("tools/list")).message().at("result").at("tools").at(0).at("name"),
            "echo");
  const Answer streamed = ask(session, call("echo", "\"x\"", R"({"a":1})"));
  EXPECT_EQ(streamed.type, "text/event-stream");
  EXPECT_EQ(streamed.message().at("id"), "x");
  EXPECT_EQ(streamed.message().at("result").at("content").at(0).at("text"), R"({"a":1})");
  const Answer plain = ask(session, call("echo"), "application/json");
  EXPECT_EQ(plain.type, "application/json");
  EXPECT_EQ(plain.message().at("result").at("isError"), false);
  EXPECT_EQ(toolbox_.ids.size(), 2U) << "each call has an id of its own";
}

TEST_F(ServerTest, AToolsFailureIsAResultAndAMissingToolAnError) {
  const std::string session = begin();
  EXPECT_EQ(ask(session, call("fail")).message().at("result").at("isError"), true);
  EXPECT_EQ(ask(session, call("none")).error_code(), kInvalidParams);
  EXPECT_EQ(ask(session, call("break")).error_code(), kInternalError);
  EXPECT_EQ(ask(session, request("tools/call", R"({"arguments":{}})")).error_code(),
            kInvalidParams);
  EXPECT_EQ(ask(session, request("tools/call", R"({"name":"echo","arguments":[]})")).error_code(),
            kInvalidParams);
  EXPECT_EQ(ask(session, request("tools/list", R"({"cursor":"x"})")).error_code(), kInvalidParams);
  EXPECT_EQ(ask(session, request("resources/list")).error_code(), kMethodNotFound);
}

TEST_F(ServerTest, AnUnknownSessionIs404AndAMissingOne400) {
  EXPECT_EQ(ask("mcp_nobody", request("tools/list")).status, 404);
  EXPECT_EQ(ask("mcp_nobody", request("ping")).status, 404);
  EXPECT_EQ(ask("", request("tools/list")).status, 400);
  EXPECT_EQ(ask("", R"({"jsonrpc":"2.0","method":"notifications/initialized"})").status, 400);
}

TEST_F(ServerTest, WithoutASessionThereIsPingAndTheWordThatThereIsNothingElse) {
  EXPECT_EQ(ask("", request("ping")).message().at("result"), Json::object());
  const Answer probe = ask("", request("server/discover"));
  EXPECT_EQ(probe.status, 200) << "clients of newer protocols go on with initialize then";
  EXPECT_EQ(probe.error_code(), kMethodNotFound);
}

TEST_F(ServerTest, AnotherProjectsSessionIsNone) {
  const std::string session = begin();
  http::ClientRequest asked{.method = "POST", .target = "/mcp", .fields = fields(session)};
  asked.fields.emplace_back("project", "other");
  asked.body = request("tools/list");
  EXPECT_EQ(run(send(asked)).status, 404);
  asked.method = "DELETE";
  asked.body.clear();
  EXPECT_EQ(run(send(asked)).status, 404);
  EXPECT_EQ(ask(session, request("ping")).status, 200);
}

TEST_F(ServerTest, DeleteEndsASession) {
  const std::string session = begin();
  EXPECT_EQ(run(send({.method = "DELETE", .target = "/mcp", .fields = fields(session)})).status,
            204);
  EXPECT_EQ(toolbox_.ended, std::set{session});
  EXPECT_EQ(ask(session, request("ping")).status, 404);
  EXPECT_EQ(run(send({.method = "PUT", .target = "/mcp"})).status, 405);
}

TEST_F(ServerTest, WhatIsNoMessageIsRefused) {
  const std::string session = begin();
  EXPECT_EQ(ask(session, "{").status, 400);
  EXPECT_EQ(ask(session, "{").error_code(), kParseError);
  EXPECT_EQ(ask(session, "[" + request("ping") + "]").status, 400);
  EXPECT_EQ(ask(session, std::string(kMessageBytesMax + 1, ' ')).status, 413);
  EXPECT_EQ(ask(session, request("ping"), "text/html").status, 406);
  http::ClientRequest text{.method = "POST", .target = "/mcp"};
  text.fields = {{"content-type", "text/plain"}, {"mcp-session-id", session}};
  text.body = request("ping");
  EXPECT_EQ(run(send(text)).status, 415);
  http::ClientRequest old{.method = "POST", .target = "/mcp", .fields = fields(session)};
  old.fields.emplace_back(kVersionField, "1999-01-01");
  old.body = request("ping");
  EXPECT_EQ(run(send(old)).status, 400);
  EXPECT_EQ(ask(session, R"({"jsonrpc":"2.0","id":1,"result":{}})").status, 202)
      << "an answer to what was never asked";
}

class WaitingTest : public ServerTest {
 protected:
  WaitingTest()
      : ServerTest({.calls_per_project = 3,
                    .calls_per_session = 2,
                    .keep_alive_time = std::chrono::milliseconds(5),
                    .progress_time = std::chrono::milliseconds(5)}) {}

  Task<> keep(Task<Answer> task, Answer& into) { into = co_await std::move(task); }
  Task<bool> until(std::function<bool()> condition) {
    const TimePoint deadline = loop_->now() + std::chrono::minutes(1);
    while (!condition() && loop_->now() < deadline)
      co_await loop_->sleep_for(std::chrono::milliseconds(1));
    co_return condition();
  }
  std::string cancel(const std::string& id) {
    return write_message(
        Notification{.method = "notifications/cancelled", .params = R"({"requestId":)" + id + "}"});
  }
};

TEST_F(WaitingTest, WhoeverWantsToHearOfProgressDoes) {
  const std::string session = begin();
  linux::TaskGroup group(*loop_);
  Answer told;
  Answer untold;
  group.spawn(keep(post(session, call("wait", "1", "{}", R"({"progressToken":"t"})")), told));
  group.spawn(keep(post(session, call("wait", "2"), "application/json"), untold));
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 2; })));
  const auto pause = [](linux::Loop& loop) -> Task<bool> {
    co_await loop.sleep_for(std::chrono::milliseconds(50));
    co_return true;
  };
  (void)run(pause(*loop_));
  toolbox_.let_go.set();
  ASSERT_TRUE(run(until([&] { return told.status != 0 && untold.status != 0; })));
  const auto messages = told.messages();
  ASSERT_GE(messages.size(), 2U);
  EXPECT_EQ(messages.front().at("method"), "notifications/progress");
  EXPECT_EQ(messages.front().at("params").at("progressToken"), "t");
  EXPECT_EQ(messages.back().at("result").at("content").at(0).at("text"), "waited");
  EXPECT_TRUE(untold.text.starts_with("\n")) << "space keeps a plain answer alive";
  EXPECT_EQ(untold.message().at("id"), 2);
}

TEST_F(WaitingTest, ACancelledCallGetsNoAnswerAndIsStopped) {
  const std::string session = begin();
  linux::TaskGroup group(*loop_);
  Answer events;
  Answer plain;
  group.spawn(keep(post(session, call("wait", "\"a\"")), events));
  group.spawn(keep(post(session, call("wait", "2"), "application/json"), plain));
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 2; })));
  EXPECT_EQ(ask(session, cancel("99")).status, 202) << "nobody knows it: nothing happens";
  EXPECT_EQ(ask(session, cancel("\"a\"")).status, 202);
  EXPECT_EQ(ask(session, cancel("\"a\"")).status, 202);
  EXPECT_EQ(ask(session, cancel("2")).status, 202);
  ASSERT_TRUE(run(until([&] { return events.status != 0 && plain.status != 0; })));
  EXPECT_EQ(events.messages().size(), 0U);
  EXPECT_EQ(plain.error_code(), kCancelled);
  EXPECT_EQ(toolbox_.cancelled, (std::set<std::string>{session + ":1", session + ":2"}));
  toolbox_.let_go.set();
}

TEST_F(WaitingTest, CallsUnderWayAreLimitedAndTheirIdsAreNotUsedTwice) {
  const std::string first = begin();
  const std::string second = begin();
  linux::TaskGroup group(*loop_);
  Answer answers[3];
  group.spawn(keep(post(first, call("wait", "1")), answers[0]));
  group.spawn(keep(post(first, call("wait", "2")), answers[1]));
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 2; })));
  EXPECT_EQ(ask(first, call("echo", "1")).error_code(), kInvalidRequest);
  EXPECT_EQ(ask(first, call("echo", "3")).error_code(), kLimitReached);
  group.spawn(keep(post(second, call("wait", "1")), answers[2]));
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 3; })));
  EXPECT_EQ(ask(second, call("echo", "2")).error_code(), kLimitReached) << "of the project";
  toolbox_.let_go.set();
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 0; })));
  EXPECT_EQ(ask(second, call("echo", "2")).error_code(), 0);
}

TEST_F(WaitingTest, ACallGoesOnWhenItsClientLeaves) {
  const std::string session = begin();
  {
    linux::TaskGroup group(*loop_);
    Answer never;
    group.spawn(keep(post(session, call("wait")), never));
    ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 1; })));
  }
  EXPECT_EQ(ask(session, request("ping")).status, 200);
  EXPECT_EQ(toolbox_.waiting, 1);
  EXPECT_TRUE(toolbox_.cancelled.empty());
  toolbox_.let_go.set();
  ASSERT_TRUE(run(until([&] { return toolbox_.waiting == 0; })));
}

TEST_F(WaitingTest, AStreamEndsWithItsSessionAndMakesRoomForTheNext) {
  const std::string session = begin();
  const auto get = [&] {
    return send({.method = "GET",
                 .target = "/mcp",
                 .fields = {{"accept", "text/event-stream"}, {"mcp-session-id", session}}});
  };
  linux::TaskGroup group(*loop_);
  Answer first;
  Answer second;
  group.spawn(keep(get(), first));
  group.spawn(keep(get(), second));
  ASSERT_TRUE(run(until([&] { return first.status == 200; }))) << "the second took its place";
  EXPECT_EQ(second.status, 0);
  (void)run(send({.method = "DELETE", .target = "/mcp", .fields = fields(session)}));
  ASSERT_TRUE(run(until([&] { return second.status == 200; })));
  EXPECT_EQ(run(get()).status, 404);
}

class FewTest : public ServerTest {
 protected:
  FewTest()
      : ServerTest({.sessions = 3,
                    .sessions_per_project = 2,
                    .idle_time = std::chrono::milliseconds(40)}) {}
};

TEST_F(FewTest, AtTheLimitASessionThatDidNothingMakesRoom) {
  const std::string first = begin();
  const std::string second = begin();
  EXPECT_EQ(ask(first, call("echo")).status, 200);
  const std::string third = begin();
  EXPECT_EQ(toolbox_.ended, std::set{second});
  EXPECT_EQ(ask(third, call("echo")).status, 200);
  const Answer refused = greet();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.error_code(), kLimitReached);
}

TEST_F(FewTest, ASessionThatNobodyUsesEnds) {
  const std::string session = begin();
  linux::TaskGroup group(*loop_);
  group.spawn(server_->keep_tidy());
  const auto wait = [](linux::Loop& loop, const TestToolbox& toolbox) -> Task<bool> {
    const TimePoint deadline = loop.now() + std::chrono::minutes(1);
    while (toolbox.ended.empty() && loop.now() < deadline)
      co_await loop.sleep_for(std::chrono::milliseconds(5));
    co_return true;
  };
  (void)run(wait(*loop_, toolbox_));
  EXPECT_EQ(toolbox_.ended, std::set{session});
  EXPECT_EQ(ask(session, request("ping")).status, 404);
}

}  // namespace
}  // namespace pons::mcp
