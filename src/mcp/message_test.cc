#include "pons/mcp/message.h"

#include <gtest/gtest.h>

#include "pons/mcp/origin.h"
#include "pons/mcp/protocol.h"

namespace pons::mcp {
namespace {

template <class Kind>
Kind read(std::string_view text) {
  const auto message = read_message(text);
  if (!message || !std::holds_alternative<Kind>(*message)) {
    ADD_FAILURE() << text;
    return {};
  }
  return std::get<Kind>(*message);
}

std::int64_t code_of(std::string_view text) {
  const auto message = read_message(text);
  return message ? 0 : message.error().error.code;
}

TEST(Message, ARequestHasAnIdAMethodAndParams) {
  const auto request = read<Request>(R"({"jsonrpc":"2.0","id":7,"method":"ping"})");
  EXPECT_EQ(request.id, "7");
  EXPECT_EQ(request.method, "ping");
  EXPECT_EQ(request.params, "{}");
  EXPECT_EQ(read<Request>(R"({"jsonrpc":"2.0","id":"a\"b","method":"m","params":{"x":[1]}})").id,
            R"("a\"b")");
}

TEST(Message, WithoutAnIdItIsANotification) {
  const auto told = read<Notification>(
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
  EXPECT_EQ(told.method, "notifications/cancelled");
  EXPECT_EQ(told.params, R"({"requestId":1})");
}

TEST(Message, AReplyIsAResultOrAnError) {
  EXPECT_EQ(std::get<std::string>(read<Reply>(R"({"jsonrpc":"2.0","id":1,"result":{}})").outcome),
            "{}");
  const auto error = read<Reply>(
      R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?","data":[1]}})");
  EXPECT_EQ(error.id, "null");
  EXPECT_EQ(std::get<RpcError>(error.outcome).code, kParseError);
}

TEST(Message, WhatIsWrittenIsReadAgainTheSame) {
  const std::string texts[] = {
      R"({"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"ü\n"}})",
      R"({"jsonrpc":"2.0","method":"a","params":{}})",
      R"({"jsonrpc":"2.0","id":-3,"result":{"a":1}})",
      R"({"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no\t"}})",
  };
  for (const std::string& text : texts) {
    const auto message = read_message(text);
    ASSERT_TRUE(message) << text;
    EXPECT_EQ(write_message(*message), text);
  }
}

TEST(Message, BatchesAreRefusedAsTheNewestProtocolDoes) {
  EXPECT_EQ(code_of("[]"), kInvalidRequest);
  EXPECT_EQ(code_of(R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])"), kInvalidRequest);
}

TEST(Message, WhatIsNoMessageIsRefused) {
  EXPECT_EQ(code_of(""), kParseError);
  EXPECT_EQ(code_of("{"), kParseError);
  EXPECT_EQ(code_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"m\"}"), kParseError);
  EXPECT_EQ(code_of("7"), kInvalidRequest);
  for (const char* text : {
           R"({"id":1,"method":"m"})",
           R"({"jsonrpc":"1.0","id":1,"method":"m"})",
           R"({"jsonrpc":2.0,"id":1,"method":"m"})",
           R"({"jsonrpc":"2.0","id":null,"method":"m"})",
           R"({"jsonrpc":"2.0","id":1.5,"method":"m"})",
           R"({"jsonrpc":"2.0","id":{},"method":"m"})",
           R"({"jsonrpc":"2.0","id":1,"method":""})",
           R"({"jsonrpc":"2.0","id":1,"method":7})",
           R"({"jsonrpc":"2.0","id":1,"method":"m","params":[1]})",
           R"({"jsonrpc":"2.0","id":1,"method":"m","params":null})",
           R"({"jsonrpc":"2.0","id":1,"method":"m","result":{}})",
           R"({"jsonrpc":"2.0","id":1})",
           R"({"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}})",
           R"({"jsonrpc":"2.0","result":{}})",
           R"({"jsonrpc":"2.0","id":1,"error":"no"})",
           R"({"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}})",
       })
    EXPECT_EQ(code_of(text), kInvalidRequest) << text;
}

TEST(Message, ARefusalNamesTheRequestWhereItCanBeRead) {
  EXPECT_EQ(read_message(R"({"jsonrpc":"2.0","id":"k","method":7})").error().id, R"("k")");
  EXPECT_EQ(read_message(R"({"jsonrpc":"2.0","id":[],"method":"m"})").error().id, "null");
}

TEST(Message, SizesAreLimited) {
  const std::string long_id(300, 'i');
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","method":"m","id":")" + long_id + "\"}"), kInvalidRequest);
  EXPECT_EQ(code_of(R"({"jsonrpc":"2.0","id":1,"method":")" + long_id + "\"}"), kInvalidRequest);
  EXPECT_EQ(code_of(std::string(kMessageBytesMax + 1, ' ')), kInvalidRequest);
  EXPECT_EQ(code_of(std::string(100'000, '[')), kParseError);
}

TEST(Protocol, AServerAgreesOrOffersItsNewest) {
  EXPECT_EQ(negotiate_version("2024-11-05"), "2024-11-05");
  EXPECT_EQ(negotiate_version("2025-06-18"), "2025-06-18");
  EXPECT_EQ(negotiate_version("2099-01-01"), kVersions.front());
  EXPECT_EQ(negotiate_version(""), kVersions.front());
}

TEST(Origin, PagesOfThisMachineAndOfTheDomainMaySpeak) {
  for (const char* origin : {"http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080",
                             "https://pons.example", "https://API.pons.example:8443"})
    EXPECT_TRUE(is_own_origin(origin, "pons.example")) << origin;
}

TEST(Origin, ARebindingPageAndASandboxsPageMayNot) {
  for (const char* origin :
       {"", "null", "http://evil.example", "http://localhost.evil.example", "http://evil.localhost",
        "https://3000-sx.pons.example", "https://notpons.example", "http://127.0.0.1.evil.example",
        "http://localhost@evil.example", "ftp://localhost", "localhost", "http://[::1",
        "http://localhost/x", "https://api.pons.example.evil"})
    EXPECT_FALSE(is_own_origin(origin, "pons.example")) << origin;
  EXPECT_FALSE(is_own_origin("https://api.", ""));
  EXPECT_FALSE(is_own_origin("https://", ""));
}

}  // namespace
}  // namespace pons::mcp
