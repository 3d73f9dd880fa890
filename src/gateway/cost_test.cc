// The brain hears what a call cost, and nobody else does.

#include "gateway_fixture.h"

namespace pons::gateway {
namespace {

class CostTest : public GatewayTest {
 protected:
  Answer call(const std::string& role, bool stream = true, std::string_view user = "hi") {
    return ask(role, "POST", "/v1/messages",
               {{"content-type", "application/json"}, {"x-pons-tell-cost", "1"}},
               std::string(R"({"model":"test","max_tokens":50,"stream":)") +
                   (stream ? "true" : "false") + R"(,"messages":[{"role":"user","content":")" +
                   std::string(user) + R"("}]})");
  }
  // As the ledger has it.
  std::int64_t spent() {
    return book_->used(run(book_->keys().ensure_root("default"))->id,
                       budget::Window::kTotal)[budget::What::kMoney];
  }
  static std::string cost_event(std::int64_t nano) {
    return "event: pons.cost\ndata: {\"type\":\"pons.cost\",\"cost_nano_usd\":" +
           std::to_string(nano) + "}\n\n";
  }
};

constexpr const char* kAnswers = R"([
  {"when":{"user":"break"},"text":"one two three","chunk_bytes":4,
   "fail":{"kind":"overloaded","after":2,"message":"busy"}},
  {"when":{"user":"refuse"},"fail":{"kind":"invalid_request","message":"no"}},
  {"text":"Hello","usage":{"input":100,"output":42}}])";

TEST_F(CostTest, AStreamToTheBrainEndsWithItsSettledCost) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = call("brain");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.text.ends_with("\"message_stop\"}\n\n" + cost_event(142))) << answer.text;
  EXPECT_EQ(spent(), 142);
}

TEST_F(CostTest, NobodyElseHearsIt) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = call("front");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.text.ends_with("\"message_stop\"}\n\n")) << answer.text;
  EXPECT_EQ(call("front", true, "refuse").field("x-pons-cost-nano-usd"), "");
}

TEST_F(CostTest, AStreamThatBreaksOffSaysItsCostBehindTheError) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = call("brain", true, "break");
  EXPECT_NE(answer.text.find("event: error"), std::string::npos) << answer.text;
  EXPECT_GT(spent(), 0);
  EXPECT_TRUE(answer.text.ends_with(cost_event(spent()))) << answer.text;
}

TEST_F(CostTest, AFailureOfResponsesIsCountedOnFromWhatWasTold) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = ask("front", "POST", "/v1/responses", {},
                            R"({"model":"test","stream":true,"input":"break"})");
  EXPECT_NE(answer.text.find("response.output_text.delta"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("event: response.failed"), std::string::npos) << answer.text;
  std::int64_t next = 0;
  constexpr std::string_view kNumber = "\"sequence_number\":";
  for (std::size_t at = answer.text.find(kNumber); at != std::string::npos;
       at = answer.text.find(kNumber, at + 1))
    EXPECT_EQ(std::stoll(answer.text.substr(at + kNumber.size())), next++) << answer.text;
}

TEST_F(CostTest, ARefusalSaysWhatItCostInAField) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = call("brain", true, "refuse");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.field("x-pons-cost-nano-usd"), "0");
  EXPECT_EQ(answer.field("x-pons-failure"), "");
}

TEST_F(CostTest, ADearerServiceIsReservedAndSettledAtItsPrice) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const Answer answer = ask("brain", "POST", "/v1/messages", {{"x-pons-tell-cost", "1"}},
                            R"({"model":"test","max_tokens":50,"stream":true,"speed":"fast",)"
                            R"("messages":[{"role":"user","content":"hi"}]})");
  EXPECT_TRUE(answer.text.ends_with(cost_event(6 * 142))) << answer.text;
  EXPECT_EQ(spent(), 6 * 142);
}

TEST_F(CostTest, ARefusalForMoneySaysSo) {
  ASSERT_NO_FATAL_FAILURE(open_script(kAnswers));
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(
      root, {.limits = std::vector<budget::Limit>{
                 {.what = budget::What::kMoney, .amount = 1, .window = budget::Window::kTotal}}})));
  const Answer answer = call("brain");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.field("x-pons-failure"), "budget");
}

}  // namespace
}  // namespace pons::gateway
