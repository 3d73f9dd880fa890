// What passes between a client and a provider beside the words.

#include <ctime>

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
  // Two of the same provider, asked in turn.
  void open_two(const std::string& first, const std::string& second,
                const char* order = "in_turn") {
    open({{"first", provider_.document(first)}, {"second", provider_.document(second)}},
         {{"test", std::string(R"({"try":["first/m","second/n"],"order":")") + order + "\"}"}});
  }
  Answer call_with(const std::string& more, http::OwnedFields fields = {}) {
    return ask("front", "POST", "/v1/messages", std::move(fields),
               R"({"model":"test","max_tokens":9,"messages":[{"role":"user","content":"hi"}])" +
                   more + "}");
  }
  FakeProvider provider_{*loop_};
};

constexpr const char* kServerTool = R"(,"tools":[{"type":"web_search_20250305","name":"search"}])";
constexpr const char* kBusy =
    R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})";

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

// ---- who is asked

TEST_F(RelayTest, WhatOneProtocolHasNoWordsForGoesToTheNextThatHas) {
  ASSERT_NO_FATAL_FAILURE(open_two("chat", "messages"));
  EXPECT_EQ(call_with(kServerTool).status, 200);
  ASSERT_EQ(provider_.asked.size(), 1U);
  EXPECT_EQ(provider_.asked[0].target, "/v1/messages");
  EXPECT_EQ(requests(), 1) << "who could not be asked costs nothing";
}

TEST_F(RelayTest, WhatNobodyHasWordsForIsRefusedByName) {
  ASSERT_NO_FATAL_FAILURE(open_two("chat", "responses"));
  const Answer refused = call_with(kServerTool);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.text.find("speaks chat"), std::string::npos) << refused.text;
  EXPECT_TRUE(provider_.asked.empty());
  EXPECT_EQ(requests(), 0);
}

TEST_F(RelayTest, AProviderIsAskedInWhicheverOfItsProtocolsHasWords) {
  std::string both = provider_.document("responses");
  both.replace(both.find("[\"responses\"]"), 13, R"(["responses","chat"])");
  open({{"far", both}}, {{"test", R"({"try":["far/m"]})"}});
  EXPECT_EQ(call_with("").status, 200);
  EXPECT_EQ(provider_.asked.back().target, "/v1/responses") << "the preferred one";
  const Answer stopped = call_with(R"(,"stop_sequences":["END"],"top_k":5)");
  EXPECT_EQ(stopped.status, 200) << stopped.text;
  EXPECT_EQ(provider_.asked.back().target, "/v1/chat/completions");
  EXPECT_NE(provider_.asked.back().body.find("END"), std::string::npos);
  EXPECT_EQ(stopped.field("x-pons-omitted"), "top_k") << "of the protocol it went in, once";
  const Answer refused = call_with(kServerTool);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(provider_.asked.size(), 2U);
}

TEST_F(RelayTest, WhatMayNotBeAskedOrHasNoPriceIsPassedOver) {
  open({{"first", provider_.document("messages")}, {"second", provider_.document("messages")}},
       {{"test", R"({"try":["first/priceless","second/n"]})"},
        {"alone", R"({"try":["first/priceless"]})"}});
  EXPECT_EQ(call_with("").status, 200);
  EXPECT_NE(provider_.asked.back().body.find("\"model\":\"n\""), std::string::npos);
  const auto call_alone = [&] {
    return ask("front", "POST", "/v1/messages", {},
               R"({"model":"alone","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})");
  };
  const Answer alone = call_alone();
  EXPECT_EQ(alone.status, 404);
  EXPECT_NE(alone.text.find("no price"), std::string::npos) << alone.text;
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(root, {.models = std::vector<std::string>{"n"}})));
  EXPECT_EQ(call_with("").status, 200) << "the second is one that the key may call";
  EXPECT_EQ(call_alone().status, 403);
  EXPECT_EQ(provider_.asked.size(), 2U);
}

TEST_F(RelayTest, CountingTokensAtAProviderIsARequestOfItsKey) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{
           {.what = budget::What::kRequests, .amount = 2, .window = budget::Window::kTotal}}})));
  const auto count = [&] {
    return ask("front", "POST", "/v1/messages/count_tokens", {},
               R"({"model":"test","messages":[{"role":"user","content":"hi"}]})");
  };
  for (int i = 0; i < 2; ++i) {
    const Answer counted = count();
    EXPECT_EQ(counted.status, 200);
    EXPECT_EQ(counted.text, R"({"input_tokens":5})");
  }
  EXPECT_EQ(count().status, 429);
  EXPECT_EQ(provider_.asked.size(), 2U);
  EXPECT_EQ(book_->used(root, budget::Window::kTotal)[budget::What::kMoney], 0);
}

TEST_F(RelayTest, ModelsAreListedAlsoThoseOfPatternsAndToldOneByOne) {
  open({{"far", R"({"kind":"openai-compatible","url":"http://127.0.0.1:1/v1","serves":["n*"]})"},
        {"stage", R"({"kind":"scripted","answers":[{"text":"hi"}]})"}},
       {{"test", R"({"try":["stage/m"]})"}});
  const Answer all = ask("front", "GET", "/v1/models");
  EXPECT_NE(all.text.find(R"("id":"test")"), std::string::npos) << all.text;
  EXPECT_NE(all.text.find(R"("id":"n")"), std::string::npos) << all.text;
  EXPECT_EQ(all.text.find('*'), std::string::npos) << all.text;
  for (const char* name : {"test", "n", "n-of-tomorrow", "far/anything", "far%2Fany%2Fthing"})
    EXPECT_EQ(ask("front", "GET", std::string("/v1/models/") + name).status, 200) << name;
  EXPECT_NE(ask("front", "GET", "/v1/models/far%2Fany").text.find(R"("id":"far/any")"),
            std::string::npos);
  const Answer unknown = ask("front", "GET", "/v1/models/zebra");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.text.find("model_not_found"), std::string::npos) << unknown.text;
  EXPECT_NE(ask("front", "GET", "/v1/models/zebra", {{"anthropic-version", "2023-06-01"}})
                .text.find("not_found_error"),
            std::string::npos);
}

TEST_F(RelayTest, WhatTheOtherProtocolHasNoPlaceForIsNamed) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  const Answer named =
      ask("front", "POST", "/v1/chat/completions", {},
          R"({"model":"test","messages":[{"role":"user","name":"ana","content":"hi"}]})");
  EXPECT_EQ(named.status, 200) << named.text;
  EXPECT_EQ(named.field("x-pons-omitted"), "name");
}

TEST_F(RelayTest, WhoHasNoWordsForItDoesNotHideWhyTheFirstFailed) {
  ASSERT_NO_FATAL_FAILURE(open_two("messages", "chat"));
  provider_.refusal = {.status = 529, .body = kBusy};
  const Answer refused = call_with(kServerTool);
  EXPECT_EQ(refused.status, 529);
  EXPECT_NE(refused.text.find("busy"), std::string::npos) << refused.text;
}

TEST_F(RelayTest, AKeyThatWasRefusedIsNobodysFaultUntilItIsTriedAgain) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  provider_.refusal = {.status = 401, .body = "{}"};
  for (int i = 0; i < 2; ++i) EXPECT_EQ(call_messages().status, 502) << i;
  EXPECT_EQ(provider_.asked.size(), 1U);
}

TEST_F(RelayTest, TheTimeToWaitMayBeADate) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  provider_.refusal = {.status = 429, .body = "{}"};
  const std::time_t then = std::time(nullptr) + 600;
  char date[64];
  std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", std::gmtime(&then));
  provider_.fields = {{"retry-after", date}};
  const Answer refused = call_messages();
  EXPECT_EQ(refused.status, 429);
  EXPECT_GT(std::stoi("0" + refused.field("retry-after")), 300) << refused.field("retry-after");
}

TEST_F(RelayTest, WhoFailsOftenIsNotAskedForAWhile) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  provider_.refusal = {.status = 529, .body = kBusy};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(call_messages().status, 529) << i;
  EXPECT_EQ(provider_.asked.size(), 5U) << "five in a row, and no more";
  const Answer refused = call_messages();
  EXPECT_NE(refused.text.find("left alone"), std::string::npos) << refused.text;
  EXPECT_NE(refused.field("retry-after"), "");
}

TEST_F(RelayTest, WhoHasAsManyCallsAsItMayIsPassedOver) {
  open({{"first", provider_.document("messages")}, {"second", provider_.document("messages")}},
       {{"test", R"({"try":[{"model":"first/m","concurrent":1},"second/n"]})"},
        {"alone", R"({"try":[{"model":"first/m","concurrent":1}]})"}});
  const auto model_asked = [&] {
    EXPECT_EQ(call_messages().status, 200);
    return provider_.asked.back().body.find("\"model\":\"m\"") != std::string::npos ? "m" : "n";
  };
  EXPECT_STREQ(model_asked(), "m");
  const auto line = routing_->candidates("test", "").value();
  EXPECT_EQ(line[0]->active, 0U) << "the call is over";
  line[0]->active = 1;
  EXPECT_STREQ(model_asked(), "n");
  routing_->candidates("alone", "").value()[0]->active = 1;
  const Answer refused =
      ask("front", "POST", "/v1/messages", {},
          R"({"model":"alone","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.field("retry-after"), "");
}

TEST_F(RelayTest, AConversationMeetsTheSameModelAgainHoweverItIsNamed) {
  ASSERT_NO_FATAL_FAILURE(open_two("messages", "messages", "by_weight"));
  const auto model_of = [&](const std::string& more, http::OwnedFields fields) {
    EXPECT_EQ(call_with(more, std::move(fields)).status, 200);
    return provider_.asked.back().body.find("\"model\":\"m\"") != std::string::npos;
  };
  int of_first[4] = {};
  constexpr int kConversations = 40;
  for (int i = 0; i < kConversations; ++i) {
    const std::string name = "conversation-" + std::to_string(i);
    // The same name with other words, and the same words when there is no name.
    const auto both = [&](int way, const std::string& first, const std::string& second,
                          const http::OwnedFields& fields) {
      const bool met = model_of(first, fields);
      EXPECT_EQ(model_of(second, fields), met) << way << " " << name;
      of_first[way] += met ? 1 : 0;
    };
    both(0, "", R"(,"system":"x")", {{"x-session-id", name}});
    both(1, "", R"(,"system":"x")", {{"x-claude-code-session-id", name}});
    both(2, R"(,"prompt_cache_key":")" + name + "\"",
         R"(,"top_k":5,"prompt_cache_key":")" + name + "\"", {});
    // A long prompt of the system is the same in all of them, or changes.
    const auto saying = [&](const std::string& system, const std::string& more) {
      const Answer answer =
          ask("front", "POST", "/v1/messages", {},
              R"({"model":"test","max_tokens":9,"system":")" + std::string(3'000, 'x') + system +
                  R"(","messages":[{"role":"user","content":")" + name + "\"}" + more + "]}");
      EXPECT_EQ(answer.status, 200);
      return provider_.asked.back().body.find("\"model\":\"m\"") != std::string::npos;
    };
    const bool met = saying("", "");
    EXPECT_EQ(saying("y", R"(,{"role":"assistant","content":"a"},{"role":"user","content":"b"})"),
              met)
        << name;
    of_first[3] += met ? 1 : 0;
  }
  for (const int met : of_first) {
    EXPECT_GT(met, 0);
    EXPECT_LT(met, kConversations);
  }
}

// ---- what is reserved

TEST_F(RelayTest, WhatTheProviderFetchesIsReservedBeforeItIsAsked) {
  ASSERT_NO_FATAL_FAILURE(open_over("messages"));
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{
           {.what = budget::What::kTokens, .amount = 15'000, .window = budget::Window::kTotal}}})));
  const auto show = [&](const std::string& source) {
    return ask("front", "POST", "/v1/messages", {},
               R"({"model":"test","max_tokens":9,"stream":true,"messages":[{"role":"user",)"
               R"("content":[{"type":"image","source":)" +
                   source + "}]}]}")
        .status;
  };
  EXPECT_EQ(show(R"({"type":"base64","media_type":"image/png","data":"AAAA"})"), 200);
  EXPECT_EQ(show(R"({"type":"url","url":"https://example.com/a.png"})"), 429);
  EXPECT_EQ(provider_.asked.size(), 1U);
}

TEST_F(RelayTest, ConversationsThatAProviderKeepsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(open_over("responses"));
  for (const char* more : {R"(,"conversation":"conv_1")", R"(,"conversation":{"id":"conv_1"})"})
    EXPECT_EQ(call_responses(more).status, 400) << more;
  EXPECT_EQ(ask("front", "POST", "/v1/responses", {},
                R"({"model":"test","input":[{"type":"item_reference","id":"msg_1"}]})")
                .status,
            400);
  EXPECT_TRUE(provider_.asked.empty());
}

}  // namespace
}  // namespace pons::gateway
