#include "egress_sender.h"

#include "brain_fixture.h"
#include "pons/mcp/client.h"

namespace pons::brain {
namespace {

// What egress says: a host's answer, a refusal, or nothing for as long as it is asked to.
class EgressSenderTest : public ::testing::Test {
 protected:
  EgressSenderTest()
      : loop_(std::move(*linux::Loop::create())),
        socket_(std::filesystem::temp_directory_path() /
                ("pons-sender-" + std::to_string(getpid()))),
        server_(*loop_, {}, [this](http::Exchange& exchange) { return serve(exchange); }),
        client_(*loop_, http::unix_connector(*loop_, socket_), "egress"),
        sender_(*loop_, client_,
                {.url = "https://mcp.example/mcp",
                 .environment = "web",
                 .credential = "TOKEN",
                 .session = "ses_1"}) {
    std::filesystem::remove(socket_);
    EXPECT_TRUE(server_.listen(std::move(*linux::listen_unix(socket_, 0600)), "brain"));
  }
  ~EgressSenderTest() override { std::filesystem::remove(socket_); }

  Task<> serve(http::Exchange& exchange) {
    for (const auto& field : exchange.request().fields)
      seen_[std::string(field.name)] = std::string(field.value);
    const auto body = co_await exchange.read_whole_body(1 << 20);
    seen_["body"] = body.value_or("");
    if (is_silent_) co_await loop_->sleep_for(std::chrono::hours(1));
    exchange.respond(answer_);
  }
  Result<mcp::ToolList> list(Duration time = std::chrono::seconds(30)) {
    mcp::Client client(*loop_, sender_, {.question_time = time});
    return linux::run_to_end(*loop_, client.list_tools());
  }

  std::unique_ptr<linux::Loop> loop_;
  std::string socket_;
  http::Response answer_;
  bool is_silent_ = false;
  std::map<std::string, std::string> seen_;
  http::Server server_;
  http::Client client_;
  EgressSender sender_;
};

TEST_F(EgressSenderTest, TellsEgressWhereToAndUnderWhichRules) {
  answer_ = {.status = 500, .fields = {{"x-pons-carried", "yes"}}};
  EXPECT_EQ(list().error().code, ErrorCode::kUnavailable) << "the host's own failure";
  EXPECT_EQ(seen_["x-pons-url"], "https://mcp.example/mcp");
  EXPECT_EQ(seen_["x-pons-method"], "POST");
  EXPECT_EQ(seen_["x-pons-environment"], "web");
  EXPECT_EQ(seen_["x-pons-credential"], "TOKEN");
  EXPECT_EQ(seen_["x-pons-for"], "ses_1");
  EXPECT_NE(seen_["body"].find("initialize"), std::string::npos);
}

TEST_F(EgressSenderTest, ARefusalOfEgressIsToldInItsWords) {
  answer_ = {.status = 403, .body = R"({"code":"host_not_allowed","reason":"not that host"})"};
  EXPECT_EQ(list().error().code, ErrorCode::kDenied);
  EXPECT_EQ(list().error().message, "not that host");
  answer_ = {.status = 404, .body = R"({"error":{"type":"not_found","message":"no environment"}})"};
  EXPECT_EQ(list().error().message, "no environment");
  answer_ = {.status = 200, .body = "no word of who said it"};
  EXPECT_EQ(list().error().code, ErrorCode::kDenied);
}

TEST_F(EgressSenderTest, NobodyWaitsLongerThanIsAllowed) {
  is_silent_ = true;
  EXPECT_EQ(list(std::chrono::milliseconds(20)).error().code, ErrorCode::kTimeout);
}

}  // namespace
}  // namespace pons::brain
