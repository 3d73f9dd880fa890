// What an answer cost, as the gateway tells it behind the answer's own events.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "answer_reader.h"
#include "gateway_model.h"
#include "pons/http/router.h"
#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"
#include "pons/models/limits.h"

namespace pons::brain {
namespace {

constexpr std::string_view kBegin =
    "event: message_start\n"
    R"(data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":7}}})"
    "\n\n"
    R"(data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
    "\n\n"
    R"(data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}})"
    "\n\n";
constexpr std::string_view kEnd =
    R"(data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}})"
    "\n\n"
    R"(data: {"type":"message_stop"})"
    "\n\n";
constexpr std::string_view kFailure =
    "event: error\n"
    R"(data: {"type":"error","error":{"type":"api_error","message":"the provider broke off"}})"
    "\n\n";

std::string cost(std::string_view number) {
  return "event: pons.cost\ndata: {\"type\":\"pons.cost\",\"cost_nano_usd\":" +
         std::string(number) + "}\n\n";
}

std::string text(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += part;
  return all;
}

const session::Listener kNobody{.on_text = [](std::string_view) {},
                                .on_tool = [](std::int64_t, std::string_view) {}};

session::Answer whole_answer(std::string_view stream) {
  AnswerReader reader(kNobody);
  EXPECT_TRUE(reader.feed(stream));
  EXPECT_TRUE(reader.is_whole());
  return reader.take();
}

TEST(AnswerCostTest, TheCostBehindAnAnswerIsItsCost) {
  const session::Answer answer = whole_answer(text({kBegin, kEnd, cost("123456")}));
  EXPECT_EQ(answer.usage.cost_nano, 123'456);
  EXPECT_EQ(answer.usage.input, 7);
  EXPECT_EQ(answer.usage.output, 2);
  EXPECT_EQ(answer.content, R"([{"type":"text","text":"Hi"}])");
}

TEST(AnswerCostTest, AnAnswerWithoutACostIsWhole) {
  EXPECT_EQ(whole_answer(text({kBegin, kEnd})).usage.cost_nano, 0);
}

TEST(AnswerCostTest, WhatAProviderSaysAboutItsCostDoesNotStand) {
  EXPECT_EQ(whole_answer(text({cost("1"), kBegin, cost("2"), kEnd, cost("3"), cost("4")}))
                .usage.cost_nano,
            4);
}

TEST(AnswerCostTest, ACostThatIsNoneIsNotTaken) {
  EXPECT_EQ(whole_answer(text({kBegin, kEnd, cost("-5")})).usage.cost_nano, 0);
  EXPECT_EQ(whole_answer(text({kBegin, kEnd, cost("\"7\"")})).usage.cost_nano, 0);
  EXPECT_EQ(whole_answer(text({kBegin, kEnd, cost("1e300")})).usage.cost_nano, 0);
}

TEST(AnswerCostTest, AnAnswerThatFailedSaysWhy) {
  AnswerReader reader(kNobody);
  ASSERT_TRUE(reader.feed(text({kBegin, kFailure, cost("99")})));
  EXPECT_FALSE(reader.is_whole());
  EXPECT_EQ(reader.error_message(), "the provider broke off");
}

// A gateway that says one thing, whatever it is asked.
class GatewayModelTest : public ::testing::Test {
 protected:
  GatewayModelTest() : loop_(std::move(*linux::Loop::create())) {
    char name[] = "/tmp/pons-model-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
    server_ = std::make_unique<http::Server>(
        *loop_, http::ServerLimits{},
        http::route({{"POST", "/v1/messages",
                      [this](http::Exchange& exchange, const http::PathValues&) -> Task<> {
                        asked_ = exchange.request().find("x-pons-tell-cost").value_or("");
                        agent_ = exchange.request().find("x-pons-agent").value_or("");
                        question_ = exchange.request().find("x-pons-question").value_or("");
                        exchange.respond(response_);
                        co_return;
                      }},
                     {"POST", "/questions/{id}/end",
                      [this](http::Exchange& exchange, const http::PathValues& values) -> Task<> {
                        question_ = values.front();
                        exchange.respond(response_);
                        co_return;
                      }}}));
    if (!server_->listen(std::move(*linux::listen_unix(socket(), 0600)), "brain")) std::abort();
  }
  ~GatewayModelTest() override {
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string socket() const { return directory_ + "/gateway"; }

  std::variant<session::Answer, session::NoAnswer> ask(http::Response response,
                                                       std::string request = "{}") {
    response_ = std::move(response);
    GatewayModel model(*loop_, http::unix_connector(*loop_, socket()));
    return linux::run_to_end(*loop_, model.ask({.id = "abc",
                                                .session = "s",
                                                .project = "p",
                                                .agent = "Prüfer 1",
                                                .request = std::move(request)},
                                               kNobody));
  }
  session::NoAnswer fail(http::Response response, std::string request = "{}") {
    const auto answer = ask(std::move(response), std::move(request));
    EXPECT_TRUE(std::holds_alternative<session::NoAnswer>(answer));
    return std::holds_alternative<session::NoAnswer>(answer) ? std::get<session::NoAnswer>(answer)
                                                             : session::NoAnswer{};
  }
  Result<session::Usage> end(http::Response response) {
    response_ = std::move(response);
    GatewayModel model(*loop_, http::unix_connector(*loop_, socket()));
    return linux::run_to_end(*loop_, model.end_question("abc"));
  }

  std::string directory_;
  std::unique_ptr<linux::Loop> loop_;
  http::Response response_;
  std::string asked_;
  std::string agent_;
  std::string question_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(GatewayModelTest, TheGatewayIsAskedForTheCost) {
  const auto answer =
      ask({.content_type = "text/event-stream", .body = text({kBegin, kEnd, cost("321")})});
  EXPECT_EQ(asked_, "1");
  EXPECT_EQ(agent_, "Pr%C3%BCfer%201");
  ASSERT_TRUE(std::holds_alternative<session::Answer>(answer));
  EXPECT_EQ(std::get<session::Answer>(answer).usage.cost_nano, 321);
}

// What was used before it failed, the gateway says when it is asked.
TEST_F(GatewayModelTest, AStreamThatFailedSaysWhyAndIsNotPaidYet) {
  const auto none =
      fail({.content_type = "text/event-stream", .body = text({kBegin, kFailure, cost("55")})});
  EXPECT_TRUE(none.unpaid);
  EXPECT_EQ(none.message, "the provider broke off");
  EXPECT_EQ(none.trouble, session::Trouble::kPassing);
}

TEST_F(GatewayModelTest, AnAnswerThatBreaksOffOrNeverBeginsIsNotPaidYet) {
  EXPECT_TRUE(fail({.content_type = "text/event-stream", .body = text({kBegin})}).unpaid);
  server_.reset();
  EXPECT_TRUE(fail({}).unpaid) << "a gateway that is gone may have asked";
}

TEST_F(GatewayModelTest, ARefusalSaysWhetherMoneyWasTheReasonAndWhetherItIsPaid) {
  const auto refusal = [&](const char* cost) {
    return fail(
        {.status = 429,
         .body = R"({"type":"error","error":{"type":"rate_limit_error","message":"used up"}})",
         .fields = {
             {"x-pons-cost-nano-usd", cost}, {"x-pons-failure", "budget"}, {"Retry-After", "12"}}});
  };
  const auto none = refusal("77");
  EXPECT_TRUE(none.unpaid);
  EXPECT_EQ(none.trouble, session::Trouble::kBudget);
  EXPECT_EQ(none.wait_ms, 12'000);
  EXPECT_FALSE(refusal("0").unpaid) << "nobody was asked";
}

TEST_F(GatewayModelTest, TheGatewayIsToldWhichQuestionItIsAndSaysWhatItCameTo) {
  (void)ask({.content_type = "text/event-stream", .body = text({kBegin, kEnd})});
  EXPECT_EQ(std::exchange(question_, ""), "abc");
  const auto used = end(
      {.body =
           R"({"input":1,"cache_read":2,"cache_write":3,"output":4,"cost_nano_usd":5,"requests":1})"});
  ASSERT_TRUE(used) << used.error().describe();
  EXPECT_EQ(question_, "abc");
  EXPECT_EQ(
      *used,
      (session::Usage{.input = 1, .cache_read = 2, .cache_write = 3, .output = 4, .cost_nano = 5}));
  EXPECT_FALSE(end({.status = 409, .body = "{}"})) << "it is still under way";
  EXPECT_FALSE(end({.body = "{}"}));
}

// With images it is, long before the model's window is full: it has to become shorter.
TEST_F(GatewayModelTest, AConversationThatIsTooLargeIsTooLong) {
  for (const char* type : {"request_too_large", "other"}) {
    const auto none = fail({.status = 413,
                            .body = std::string(R"({"type":"error","error":{"type":")") + type +
                                    R"(","message":"the request is larger than 32 MB"}})"});
    EXPECT_EQ(none.trouble, session::Trouble::kTooLong);
  }
  asked_.clear();
  const auto none = fail({}, std::string(models::kRequestBytesMax + 1, ' '));
  EXPECT_EQ(none.trouble, session::Trouble::kTooLong);
  EXPECT_FALSE(none.unpaid);
  EXPECT_EQ(asked_, "") << "nobody is asked";
}

}  // namespace
}  // namespace pons::brain
