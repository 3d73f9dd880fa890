#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/models/protocol.h"

namespace pons::models {
namespace {

Failing kind(int status, const std::string& type, const std::string& message = "m") {
  return messages_protocol()
      .read_error(status, R"({"type":"error","error":{"type":")" + type + R"(","message":")" +
                              message + "\"}}")
      .kind;
}

TEST(MessagesErrors, AProvidersRefusalIsUnderstood) {
  EXPECT_EQ(kind(400, "invalid_request_error"), Failing::kInvalidRequest);
  EXPECT_EQ(kind(404, "not_found_error"), Failing::kNotFound);
  EXPECT_EQ(kind(413, "request_too_large"), Failing::kTooLarge);
  EXPECT_EQ(kind(429, "rate_limit_error"), Failing::kRateLimit);
  EXPECT_EQ(kind(500, "api_error"), Failing::kUpstream);
  EXPECT_EQ(kind(504, "timeout_error"), Failing::kTimeout);
  EXPECT_EQ(kind(529, "overloaded_error"), Failing::kOverloaded);
  EXPECT_EQ(kind(503, "api_error"), Failing::kOverloaded);
}

TEST(MessagesErrors, ABadCredentialOfTheGatewayIsNotTheCallersFault) {
  for (const int status : {401, 402, 403}) {
    const Failure failure = messages_protocol().read_error(
        status,
        R"({"error":{"type":"authentication_error","message":"invalid x-api-key sk-ant-1"}})");
    EXPECT_EQ(failure.kind, Failing::kUpstream);
    EXPECT_EQ(failure.message.find("sk-ant"), std::string::npos);
    EXPECT_EQ(messages_protocol().write_error(failure, "").status, 502);
  }
}

TEST(MessagesErrors, APromptThatDoesNotFitIsKnownByItsWords) {
  for (const char* message :
       {"prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "This model's maximum context length is 32768 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.", "The input token count exceeds the maximum"})
    EXPECT_EQ(kind(400, "invalid_request_error", message), Failing::kContextLength) << message;
  EXPECT_EQ(kind(400, "invalid_request_error", "max_tokens: too large"), Failing::kInvalidRequest);
}

TEST(MessagesErrors, AnyBodyGivesAFailure) {
  const auto& protocol = messages_protocol();
  EXPECT_EQ(protocol.read_error(502, "<html>Bad Gateway</html>").message,
            "the provider failed and gave no reason");
  EXPECT_EQ(protocol.read_error(429, "slow down").message, "slow down");
  EXPECT_EQ(protocol.read_error(429, "slow down").kind, Failing::kRateLimit);
  EXPECT_EQ(protocol.read_error(500, "\xff\xfe").kind, Failing::kUpstream);
  EXPECT_EQ(protocol.read_error(500, R"({"error":"broken"})").message, "broken");
  std::string umlauts;
  for (int i = 0; i < 3000; ++i) umlauts += "ü";
  const Failure cut = protocol.read_error(500, "x" + umlauts);
  EXPECT_LE(cut.message.size(), 2000U);
  EXPECT_TRUE(parse_json(protocol.write_error(cut, "r").body));
}

TEST(MessagesErrors, FailuresHaveTheProtocolsOwnShape) {
  const auto& protocol = messages_protocol();
  const ErrorBody error =
      protocol.write_error({.kind = Failing::kBudget, .message = "used up"}, "req_1");
  EXPECT_EQ(error.status, 429);
  EXPECT_EQ(
      error.body,
      R"({"type":"error","error":{"type":"rate_limit_error","message":"used up"},"request_id":"req_1"})");
  const std::vector<std::tuple<Failing, int, const char*>> shapes = {
      {Failing::kInvalidRequest, 400, "invalid_request_error"},
      {Failing::kAuthentication, 401, "authentication_error"},
      {Failing::kPermission, 403, "permission_error"},
      {Failing::kNotFound, 404, "not_found_error"},
      {Failing::kTooLarge, 413, "request_too_large"},
      {Failing::kContextLength, 400, "invalid_request_error"},
      {Failing::kRateLimit, 429, "rate_limit_error"},
      {Failing::kOverloaded, 529, "overloaded_error"},
      {Failing::kTimeout, 504, "timeout_error"},
      {Failing::kUpstream, 502, "api_error"}};
  for (const auto& [failing, status, type] : shapes) {
    const ErrorBody body = protocol.write_error({.kind = failing, .message = "m"}, "");
    EXPECT_EQ(body.status, status);
    EXPECT_EQ(parse_json(body.body).value()["error"]["type"], type);
  }
}

TEST(MessagesErrors, ClientsFindTheWordsTheyLookForWhenThePromptIsTooLong) {
  const auto message = [](const char* said) {
    const ErrorBody body =
        messages_protocol().write_error({.kind = Failing::kContextLength, .message = said}, "");
    return std::string(parse_json(body.body).value()["error"]["message"]);
  };
  EXPECT_EQ(message("maximum context length is 8192"),
            "prompt is too long: maximum context length is 8192");
  EXPECT_EQ(message("Prompt is too long: 5 > 4"), "Prompt is too long: 5 > 4");
}

}  // namespace
}  // namespace pons::models
