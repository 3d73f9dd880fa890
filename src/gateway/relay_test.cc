// What passes between a client and a provider beside the words.

#include "fake_provider.h"
#include "gateway_fixture.h"

namespace pons::gateway {
namespace {

class RelayTest : public GatewayTest {
 protected:
  void open_over(const std::string& protocol) {
    open({{"far", provider_.document(protocol)}}, {{"test", R"({"try":["far/m"]})"}});
  }
  Answer call_messages() {
    return ask("front", "POST", "/v1/messages", {},
               R"({"model":"test","max_tokens":9,"stream":true,)"
               R"("messages":[{"role":"user","content":"hi"}]})");
  }
  Answer call_responses(const std::string& more) {
    return ask("front", "POST", "/v1/responses", {},
               R"({"model":"test","stream":true,"input":"hi")" + more + "}");
  }
  std::int64_t requests() {
    return book_->used(run(book_->keys().ensure_root("default"))->id,
                       budget::Window::kTotal)[budget::What::kRequests];
  }
  FakeProvider provider_{*loop_};
};

TEST_F(RelayTest, WhatAProviderSaysAboutItsLimitsReachesItsClientsWithAnswersAndRefusals) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  provider_.fields = {{"anthropic-ratelimit-requests-remaining", "0"}, {"x-other", "secret"}};
  EXPECT_EQ(call_messages().field("anthropic-ratelimit-requests-remaining"), "0");
  // One that nobody else can put right, so that it is not tried again.
  provider_.refusal = {.status = 400,
                       .body = R"({"type":"error","error":{"type":"invalid_request_error",)"
                               R"("message":"no"}})"};
  const Answer refused = call_messages();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.field("anthropic-ratelimit-requests-remaining"), "0");
  EXPECT_EQ(refused.field("x-other"), "");
}

TEST_F(RelayTest, TheLimitsOfAnotherProtocolAreNotTheClients) {
  ASSERT_NO_FATAL_FAILURE(open_over("chat"));
  provider_.fields = {{"x-ratelimit-remaining-requests", "0"}};
  EXPECT_EQ(call_messages().field("x-ratelimit-remaining-requests"), "");
}

TEST_F(RelayTest, AResponseIsContinuedWhereItWasMadeAndAnUnknownOneIsRefusedWithAdvice) {
  ASSERT_NO_FATAL_FAILURE(open_over("responses"));
  const Answer unknown = call_responses(R"(,"previous_response_id":"resp_1")");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(unknown.text.find("previous_response_not_found"), std::string::npos) << unknown.text;
  EXPECT_NE(unknown.text.find("Send the whole conversation"), std::string::npos) << unknown.text;
  EXPECT_TRUE(provider_.asked.empty());
  EXPECT_EQ(call_responses("").status, 200);
  EXPECT_EQ(call_responses(R"(,"previous_response_id":"resp_1")").status, 200);
  EXPECT_NE(provider_.asked.back().body.find("resp_1"), std::string::npos);
  // After a restart nobody knows it any more.
  close();
  ASSERT_NO_FATAL_FAILURE(open_over("responses"));
  EXPECT_EQ(call_responses(R"(,"previous_response_id":"resp_1")").status, 400);
}

TEST_F(RelayTest, TokensAreEstimatedHighAndSaidToBeEstimatedWhereNobodyCounts) {
  ASSERT_NO_FATAL_FAILURE(open_over("chat"));
  const std::string words(3'000, 'x');
  const Answer counted =
      ask("front", "POST", "/v1/messages/count_tokens", {},
          R"({"model":"test","messages":[{"role":"user","content":")" + words + "\"}]}");
  EXPECT_EQ(counted.status, 200);
  EXPECT_EQ(counted.field("x-pons-estimate"), "true");
  constexpr std::string_view kBefore = "{\"input_tokens\":";
  ASSERT_TRUE(counted.text.starts_with(kBefore)) << counted.text;
  EXPECT_GE(std::stoll(counted.text.substr(kBefore.size())), 1'000);
  EXPECT_TRUE(provider_.asked.empty());
}

TEST_F(RelayTest, NothingIsAnsweredFromMemoryAndEveryRequestIsPaid) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(call_messages().status, 200);
  EXPECT_EQ(provider_.asked.size(), 2U);
  EXPECT_EQ(requests(), 2);
}

}  // namespace
}  // namespace pons::gateway
