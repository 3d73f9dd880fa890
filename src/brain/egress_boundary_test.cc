#include "egress_boundary.h"

#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "pons/http/server.h"
#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"

namespace pons::brain {
namespace {

class EgressBoundaryTest : public ::testing::Test {
 protected:
  EgressBoundaryTest()
      : loop_(std::move(*linux::Loop::create())),
        socket_(std::filesystem::temp_directory_path() /
                ("pons-boundary-" + std::to_string(getpid()))),
        server_(*loop_, {}, [this](http::Exchange& exchange) { return serve(exchange); }),
        boundary_(*loop_, http::unix_connector(*loop_, socket_)) {
    std::filesystem::remove(socket_);
    EXPECT_TRUE(server_.listen(std::move(*linux::listen_unix(socket_, 0600)), "brain"));
  }
  ~EgressBoundaryTest() override { std::filesystem::remove(socket_); }

  Task<> serve(http::Exchange& exchange) {
    (void)co_await exchange.read_whole_body(1 << 20);
    target_ = exchange.request().target;
    exchange.respond(answer_);
  }
  Result<session::Redaction> redact(std::string text, std::vector<std::string> sandboxes = {}) {
    return linux::run_to_end(
        *loop_, boundary_.redact({.text = std::move(text), .sandboxes = std::move(sandboxes)}));
  }

  std::unique_ptr<linux::Loop> loop_;
  std::string socket_;
  http::Response answer_;
  std::string target_;
  http::Server server_;
  EgressBoundary boundary_;
};

TEST_F(EgressBoundaryTest, AnEmptyAnswerIsATextWithNothingInIt) {
  const auto clean = redact("hello", {"a", "b"});
  ASSERT_TRUE(clean) << clean.error().describe();
  EXPECT_EQ(clean->text, "hello");
  EXPECT_TRUE(clean->redacted.empty());
  EXPECT_NE(target_.find("sandboxes=a,b"), std::string::npos);
}

TEST_F(EgressBoundaryTest, WhatWasFoundIsNamedAndCrossedOut) {
  answer_ = {.body = "xxxxx", .fields = {{"x-pons-redacted", "KEY,TOKEN"}}};
  const auto clean = redact("hello");
  ASSERT_TRUE(clean) << clean.error().describe();
  EXPECT_EQ(clean->text, "xxxxx");
  EXPECT_EQ(clean->redacted, (std::vector<std::string>{"KEY", "TOKEN"}));
}

TEST_F(EgressBoundaryTest, WhatIsWrongWithTheRequestIsWrongForGoodAndAllElsePasses) {
  const std::vector<std::pair<int, ErrorCode>> cases = {
      {400, ErrorCode::kInvalid},     {413, ErrorCode::kInvalid},
      {414, ErrorCode::kInvalid},     {408, ErrorCode::kUnavailable},
      {429, ErrorCode::kUnavailable}, {500, ErrorCode::kUnavailable},
      {503, ErrorCode::kUnavailable}};
  for (const auto& [status, code] : cases) {
    answer_ = {.status = status, .body = std::string(10'000, 'x')};
    EXPECT_EQ(redact("hello").error().code, code) << status;
  }
}

TEST_F(EgressBoundaryTest, MoreSandboxesThanFitIntoARequestAreNotAskedFor) {
  std::vector<std::string> ids(200, "sx-0123456789abcdef01234567-t");
  EXPECT_TRUE(redact("hello", ids)) << "as many as a session may have";
  ids.resize(400, ids.front());
  target_.clear();
  EXPECT_EQ(redact("hello", ids).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(target_, "");
}

}  // namespace
}  // namespace pons::brain
