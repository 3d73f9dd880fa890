#include "session_servers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "brain_fixture.h"
#include "pons/base/json.h"

namespace pons::brain {
namespace {

using session::ServerFault;
using session::ServerGrant;
using session::ServerWay;
using testing::HasSubstr;

// An egress behind which a server is, and what that server does.
class SessionServersTest : public BrainTest {
 protected:
  SessionServersTest()
      : pins_(*store_, clock_),
        egress_(*loop_, {.body_bytes = 1 << 20},
                [this](http::Exchange& exchange) { return serve(exchange); }),
        client_(*loop_, http::unix_connector(*loop_, "egress-of-test"), "egress"),
        servers_(*loop_, client_, pins_,
                 {.question_time = std::chrono::milliseconds(200),
                  .call_time = std::chrono::milliseconds(300)}) {
    EXPECT_TRUE(egress_.listen(std::move(*linux::listen_unix("egress-of-test", 0600)), "brain"));
  }
  ~SessionServersTest() override { std::filesystem::remove("egress-of-test"); }

  Task<> serve(http::Exchange& exchange) {
    const auto head = [&](std::string_view name) {
      return std::string(exchange.request().find(name).value_or(""));
    };
    seen_network_ = head("x-pons-network");
    seen_url_ = head("x-pons-url");
    const std::string body = (co_await exchange.read_whole_body(1 << 20)).value_or("");
    const Json message = parse_json(body).value_or(Json::object());
    const std::string method = message.value("method", "");
    asked_.push_back(method);
    if (is_refused_) {
      exchange.respond(
          {.status = 403, .body = R"({"reason":"the policy does not allow this host"})"});
      co_return;
    }
    if (method == hangs_at_) co_await loop_->sleep_for(std::chrono::hours(1));
    http::Response response{.status = status_, .fields = {{"x-pons-carried", "yes"}}};
    response.fields.emplace_back("content-type", "application/json");
    if (message.contains("id") && status_ == 200)
      response.body =
          dump_json({{"jsonrpc", "2.0"}, {"id", message.at("id")}, {"result", result_of(method)}});
    else if (status_ == 200)
      response.status = 202;
    exchange.respond(std::move(response));
  }
  Json result_of(const std::string& method) const {
    if (method == "initialize")
      return {{"protocolVersion", "2025-06-18"}, {"capabilities", Json::object()}};
    if (method == "tools/list") return {{"tools", tools_}};
    return result_;
  }

  static Json tool(const std::string& name, const std::string& description = "d") {
    return {{"name", name}, {"description", description}, {"inputSchema", {{"type", "object"}}}};
  }
  static ServerWay way() {
    return {.session = "ses_1", .project = "default", .network = R"({"mode":"public"})"};
  }
  static ServerGrant far() { return {.name = "far", .url = "https://far.example/mcp"}; }
  session::ServerOffer list() { return run(servers_.list(way(), {far()})); }
  Result<session::ServerReport> call() {
    return run(
        servers_.call(way(), {.call = "ses_1:9", .server = far(), .tool = "do", .input = "{}"}));
  }
  std::size_t asked(std::string_view method) const {
    return static_cast<std::size_t>(std::ranges::count(asked_, method));
  }

  ServerPins pins_;
  Json tools_ = Json::array({tool("do")});
  Json result_ = {{"content", Json::array({{{"type", "text"}, {"text", "done"}}})}};
  int status_ = 200;
  bool is_refused_ = false;
  std::string hangs_at_ = "nothing";
  std::vector<std::string> asked_;
  std::string seen_network_;
  std::string seen_url_;
  http::Server egress_;
  http::Client client_;
  SessionServers servers_;
};

TEST_F(SessionServersTest, AServersToolsAreListedAndCalledInOneConversation) {
  const auto offer = list();
  ASSERT_EQ(offer.tools.size(), 1U);
  EXPECT_EQ(offer.tools[0].alias, "far__do");
  EXPECT_TRUE(offer.tools[0].asks) << "unless somebody says otherwise";
  EXPECT_EQ(seen_network_, R"({"mode":"public"})");
  EXPECT_EQ(seen_url_, "https://far.example/mcp");
  const auto report = call();
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_EQ(report->text, "done");
  EXPECT_EQ(asked("initialize"), 1U);
  EXPECT_EQ(servers_.open(), 1U);
}

TEST_F(SessionServersTest, AServerThatHangsCostsItsToolsAndSomeTime) {
  hangs_at_ = "tools/list";
  const auto offer = list();
  EXPECT_TRUE(offer.tools.empty());
  ASSERT_EQ(offer.troubles.size(), 1U);
  EXPECT_EQ(offer.troubles[0].fault, ServerFault::kConnection);
  EXPECT_THAT(offer.troubles[0].message, HasSubstr("in time"));
  EXPECT_EQ(servers_.counts().list_failures, 1U);
}

TEST_F(SessionServersTest, ACallThatHangsMayHaveBeenDone) {
  (void)list();
  hangs_at_ = "tools/call";
  EXPECT_EQ(call().error().code, ErrorCode::kTimeout);
  EXPECT_EQ(asked("tools/call"), 1U) << "it is not made again";
  EXPECT_EQ(servers_.counts().lost_calls, 1U);
}

TEST_F(SessionServersTest, AnAnswerThatIsTooLongMayHaveBeenDone) {
  (void)list();
  result_ = {{"content", Json::array({{{"type", "text"}, {"text", std::string(5 << 20, 'x')}}})}};
  EXPECT_EQ(call().error().code, ErrorCode::kIo);
  result_ = {{"nothing", true}};
  EXPECT_EQ(call().error().code, ErrorCode::kIo);
}

TEST_F(SessionServersTest, WhatDidNotLeaveWasNotDone) {
  (void)list();
  is_refused_ = true;
  const auto refused = call();
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("does not allow this host"));
  const auto offer = list();
  EXPECT_EQ(offer.troubles.at(0).fault, ServerFault::kConnection);
  EXPECT_THAT(offer.troubles[0].message, HasSubstr("does not allow this host"));
}

TEST_F(SessionServersTest, AServerThatWantsOtherCredentialsSaysSo) {
  status_ = 401;
  EXPECT_EQ(list().troubles.at(0).fault, ServerFault::kAuthentication);
  status_ = 500;
  EXPECT_EQ(list().troubles.at(0).fault, ServerFault::kConnection);
}

TEST_F(SessionServersTest, ChangedToolsAreNeitherOfferedNorCalled) {
  ASSERT_EQ(list().tools.size(), 1U);
  tools_ = Json::array({tool("do", "something else")});
  const auto offer = list();
  EXPECT_TRUE(offer.tools.empty());
  EXPECT_EQ(offer.troubles.at(0).fault, ServerFault::kTools);
  EXPECT_EQ(call().error().code, ErrorCode::kInvalid);
  EXPECT_EQ(asked("tools/call"), 0U);
  const auto known = run(pins_.find("default", far().url)).value();
  ASSERT_TRUE(run(pins_.accept("default", far().url, {{"do", known.pending.at(0).digest}})));
  EXPECT_EQ(list().tools.size(), 1U);
  EXPECT_TRUE(call());
}

TEST_F(SessionServersTest, WithoutANetworkNothingIsAsked) {
  ServerWay none = way();
  none.network.clear();
  const auto offer = run(servers_.list(none, {far()}));
  EXPECT_THAT(offer.troubles.at(0).message, HasSubstr("no network"));
  EXPECT_TRUE(asked_.empty());
}

}  // namespace
}  // namespace pons::brain
