#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pons/models/protocol.h"

namespace pons::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Failing kind_of(int status, std::string_view body) {
  return responses_protocol().read_error(status, body).kind;
}

TEST(ResponsesErrorTest, ContextLengthIsRecognisedInTheWordsOfEachProvider) {
  for (
      const char* said :
      {R"({"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}})",
       R"({"error":{"message":"Your input exceeds the context window of this model."}})",
       R"({"error":{"message":"This model's maximum context length is 8192 tokens."}})",
       R"({"message":"This model's Maximum Context Length is 4096","code":400})",
       R"({"error":{"code":400,"message":"the request exceeds the available context size",
            "type":"exceed_context_size_error"}})",
       R"({"type":"error","error":{"type":"invalid_request_error",
            "message":"prompt is too long: 9 tokens > 8 maximum"}})",
       R"({"error":{"message":"The input token count (9) exceeds the maximum number of tokens allowed (8)."}})"})
    EXPECT_EQ(kind_of(400, said), Failing::kContextLength) << said;
  EXPECT_EQ(kind_of(400, R"({"error":{"message":"bad tool"}})"), Failing::kInvalidRequest);
}

TEST(ResponsesErrorTest, EveryRefusalHasAnAnswer) {
  EXPECT_EQ(kind_of(429, "{}"), Failing::kRateLimit);
  EXPECT_EQ(kind_of(503, "<html>"), Failing::kOverloaded);
  EXPECT_EQ(kind_of(529, ""), Failing::kOverloaded);
  EXPECT_EQ(kind_of(404, R"({"error":"no such model"})"), Failing::kNotFound);
  EXPECT_EQ(kind_of(413, "[]"), Failing::kTooLarge);
  EXPECT_EQ(kind_of(500, "null"), Failing::kUpstream);
  EXPECT_EQ(kind_of(504, "7"), Failing::kTimeout);
  EXPECT_EQ(responses_protocol().read_error(404, R"({"error":"no such model"})").message,
            "no such model");
  EXPECT_EQ(responses_protocol().read_error(502, "").message,
            "the provider answered with status 502");
}

TEST(ResponsesErrorTest, AProvidersKeyIsNotTheCallersAndIsNotShown) {
  const auto failure = responses_protocol().read_error(
      401,
      R"({"error":{"message":"Incorrect API key provided: sk-abc","code":"invalid_api_key"}})");
  EXPECT_EQ(failure.kind, Failing::kUpstream);
  EXPECT_THAT(failure.message, Not(HasSubstr("sk-abc")));
  EXPECT_EQ(responses_protocol().write_error(failure, "").status, 502);
}

TEST(ResponsesErrorTest, ErrorsHaveTheShapeOfTheService) {
  const auto budget = responses_protocol().write_error(
      {.kind = Failing::kBudget, .message = "the budget \"a\" is used up"}, "req_1");
  EXPECT_EQ(budget.status, 429);
  EXPECT_EQ(budget.body, R"({"error":{"message":"the budget \"a\" is used up","type":)"
                         R"("insufficient_quota","param":null,"code":"insufficient_quota"}})");
  const auto status = [](Failing kind) {
    return responses_protocol().write_error({.kind = kind, .message = "m"}, "").status;
  };
  EXPECT_EQ(status(Failing::kInvalidRequest), 400);
  EXPECT_EQ(status(Failing::kAuthentication), 401);
  EXPECT_EQ(status(Failing::kPermission), 403);
  EXPECT_EQ(status(Failing::kNotFound), 404);
  EXPECT_EQ(status(Failing::kTooLarge), 413);
  EXPECT_EQ(status(Failing::kContextLength), 400);
  EXPECT_EQ(status(Failing::kRateLimit), 429);
  EXPECT_EQ(status(Failing::kOverloaded), 503);
  EXPECT_EQ(status(Failing::kTimeout), 504);
  EXPECT_EQ(status(Failing::kUpstream), 502);
}

}  // namespace
}  // namespace pons::models
