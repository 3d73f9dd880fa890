#include "pons/mcp/bridge.h"

#include "server_fixture.h"

namespace pons::mcp {
namespace {

class BridgeTest : public ServerTest {
 protected:
  BridgeTest() : client_(client()) {
    bridge_ = std::make_unique<Bridge>(*loop_, *client_, "/mcp", http::OwnedFields{},
                                       [this](std::string line) { said_.push_back(line); });
  }
  ~BridgeTest() override { bridge_.reset(); }

  void say(std::string line) {
    const auto take = [](Bridge& bridge, std::string text) -> Task<bool> {
      co_await bridge.take(std::move(text));
      co_return true;
    };
    (void)run(take(*bridge_, std::move(line)));
  }
  Json hear(std::size_t count) {
    const auto wait = [](linux::Loop& loop, const std::vector<std::string>& said,
                         std::size_t wanted) -> Task<bool> {
      const TimePoint deadline = loop.now() + std::chrono::minutes(1);
      while (said.size() < wanted && loop.now() < deadline)
        co_await loop.sleep_for(std::chrono::milliseconds(1));
      co_return true;
    };
    (void)run(wait(*loop_, said_, count));
    EXPECT_EQ(said_.size(), count);
    return said_.empty() ? Json::object() : parse_json(said_.back()).value_or(Json::object());
  }
  void leave() {
    const auto finish = [](Bridge& bridge, linux::Loop& loop) -> Task<bool> {
      co_await bridge.finish(loop.now() + std::chrono::seconds(10));
      co_return true;
    };
    (void)run(finish(*bridge_, *loop_));
  }
  static std::string hello() {
    return request("initialize", R"({"protocolVersion":"2025-11-25"})", "0");
  }

  std::vector<std::string> said_;
  std::unique_ptr<http::Client> client_;
  std::unique_ptr<Bridge> bridge_;
};

TEST_F(BridgeTest, LinesBecomeRequestsAndAnswersLines) {
  say(hello());
  EXPECT_EQ(hear(1).at("result").at("protocolVersion"), "2025-11-25");
  say(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  say("");
  say(call("echo", "5", R"({"x":"y"})"));
  const Json answer = hear(2);
  EXPECT_EQ(answer.at("id"), 5);
  EXPECT_EQ(answer.at("result").at("content").at(0).at("text"), R"({"x":"y"})");
  EXPECT_EQ(said_.back().find('\n'), std::string::npos);
  leave();
  EXPECT_EQ(toolbox_.ended.size(), 1U) << "its session ends with it";
}

TEST_F(BridgeTest, ARequestIsTakenWhileAnotherOneWaits) {
  say(hello());
  (void)hear(1);
  say(call("wait", "1"));
  say(request("ping", "{}", "2"));
  EXPECT_EQ(hear(2).at("id"), 2);
  toolbox_.let_go.set();
  EXPECT_EQ(hear(3).at("id"), 1);
}

TEST_F(BridgeTest, WhatIsNoMessageIsToldToTheProgram) {
  say("hello");
  EXPECT_EQ(hear(1).at("error").at("code"), kParseError);
}

TEST_F(BridgeTest, AServerThatForgotTheSessionIsGreetedAgain) {
  say(hello());
  (void)hear(1);
  server_ = std::make_unique<Server>(*loop_, toolbox_, ServerLimits{});
  say(call("echo", "1"));
  say(call("echo", "2"));
  say(call("echo", "3"));
  EXPECT_TRUE(hear(4).contains("result"));
  EXPECT_EQ(server_->session_count(), 1U) << "all of them share the new session";
}

TEST_F(BridgeTest, ARefusalReachesTheProgramInTheServersWords) {
  say(request("tools/list"));
  EXPECT_THAT(hear(1).at("error").at("message").get<std::string>(),
              testing::HasSubstr("begin with initialize"));
}

}  // namespace
}  // namespace pons::mcp
