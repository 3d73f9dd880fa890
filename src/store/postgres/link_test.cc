#include "link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "pons/linux/run_task.h"
#include "pons/linux/unix_socket.h"

namespace pons::store::postgres {
namespace {

using namespace std::string_literals;

// A connection whose other end is the test.
class LinkTest : public testing::Test, public LinkOwner {
 protected:
  LinkTest() : loop_(std::move(*linux::Loop::create())) {
    auto pair = std::move(*linux::create_socket_pair(SOCK_STREAM));
    server_ = std::move(pair.first);
    link_ = std::make_unique<Link>(
        *loop_, std::move(*http::create_plain_transport(*loop_, std::move(pair.second))),
        LinkLimits{.answer = {.rows = 3, .row_bytes = 1000},
                   .silence_max = std::chrono::milliseconds(200)},
        *this);
  }
  void on_answered(const Request&) override { ++answered_; }
  void on_returned(std::shared_ptr<Request> request) override { returned_.push_back(request); }
  void on_notification(Notification notification) override {
    told_.push_back(notification.payload);
  }

  std::shared_ptr<Request> send(std::string sql, std::vector<Value> values = {},
                                bool may_repeat = false) {
    auto request = std::make_shared<Request>(*loop_);
    request->statements = {{.sql = std::move(sql), .values = std::move(values)}};
    request->may_repeat = may_repeat;
    link_->send(request);
    return request;
  }
  void say(std::string_view bytes) {
    ASSERT_EQ(::send(server_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // Until the connection has ended. `answer`: what the server says when it was asked.
  Error run(std::string_view answer, bool then_closes = true) {
    const auto serve = [](linux::Loop& loop, linux::UniqueFd& server, std::string_view words,
                          bool closes) -> Task<> {
      co_await loop.sleep_for(std::chrono::milliseconds(20));
      char ignored[4096];
      while (recv(server.get(), ignored, sizeof ignored, MSG_DONTWAIT) > 0) {
      }
      (void)!::send(server.get(), words.data(), words.size(), MSG_NOSIGNAL);
      if (closes) server.reset();
    };
    const auto talk = [](Link& link) -> Task<std::optional<Error>> {
      co_return co_await link.run();
    };
    linux::TaskGroup group(*loop_);
    group.spawn(serve(*loop_, server_, answer, then_closes));
    return linux::run_to_end(*loop_, talk(*link_)).value_or(Error{});
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::UniqueFd server_;
  std::vector<std::shared_ptr<Request>> returned_;
  std::vector<std::string> told_;
  int answered_ = 0;
  std::unique_ptr<Link> link_;
};

const std::string kParsed = "1\0\0\0\4t\0\0\0\6\0\0n\0\0\0\4"s;
const std::string kDone = "2\0\0\0\4C\0\0\0\rUPDATE 1\0"s;
const std::string kReadyNow = "Z\0\0\0\5I"s;

TEST_F(LinkTest, AnAnswerIsGoodOnlyWhenTheServerIsReadyAgain) {
  const auto first = send("UPDATE t SET a = 1");
  const auto second = send("UPDATE t SET a = 1");
  (void)run(kParsed + kDone + kReadyNow + kDone);
  ASSERT_TRUE(first->result);
  EXPECT_EQ(first->result->front().changed, 1);
  EXPECT_EQ(second->result.error().code, ErrorCode::kTimeout) << "it may have been stored";
  EXPECT_TRUE(returned_.empty());
}

TEST_F(LinkTest, AWriteWhoseConnectionIsLostIsNeverAskedAgain) {
  const auto request = send("UPDATE t SET a = 1");
  (void)run("");
  EXPECT_EQ(request->result.error().code, ErrorCode::kTimeout);
  EXPECT_TRUE(returned_.empty());
}

TEST_F(LinkTest, AWriteDuringWhichTheServerGoesAwayMayHaveBeenStored) {
  const auto request = send("UPDATE t SET a = 1");
  (void)run("E\0\0\0\x1fSFATAL\0VFATAL\0C57P01\0Mbye\0\0"s);
  EXPECT_EQ(request->result.error().code, ErrorCode::kTimeout);
}

TEST_F(LinkTest, AReadWhoseConnectionIsLostGoesElsewhere) {
  const auto request = send("SELECT 1", {}, /*may_repeat=*/true);
  (void)run("");
  ASSERT_EQ(returned_.size(), 1U);
  EXPECT_EQ(returned_[0], request);
}

TEST_F(LinkTest, AWriteThatWasNotSaidToItsEndGoesElsewhere) {
  const auto request = send("UPDATE t SET a = $1", {std::string(8 << 20, 'x')});
  (void)run("");
  ASSERT_EQ(returned_.size(), 1U);
  EXPECT_EQ(returned_[0], request);
}

TEST_F(LinkTest, AServerThatSaysNothingIsGivenUp) {
  const auto request = send("UPDATE t SET a = 1");
  (void)run("", /*then_closes=*/false);
  EXPECT_EQ(request->result.error().code, ErrorCode::kTimeout);
}

TEST_F(LinkTest, ATransactionThatMetAnotherIsAskedAgain) {
  const auto request = send("UPDATE t SET a = 1");
  (void)run("E\0\0\0\x1dSERROR\0C40P01\0Mdeadlock\0\0"s + kReadyNow);
  ASSERT_EQ(returned_.size(), 1U);
  EXPECT_EQ(returned_[0], request);
}

TEST_F(LinkTest, NotificationsComeAtAnyTime) {
  (void)run("A\0\0\0\x0c\0\0\0\1c\0p\0"s + "N\0\0\0\4"s + "S\0\0\0\4"s);
  EXPECT_EQ(told_, std::vector<std::string>{"p"});
}

TEST_F(LinkTest, WhatIsNoStatementIsRefusedAndHarmsNobody) {
  const auto wrong = send("COMMIT");
  EXPECT_EQ(wrong->result.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(link_->under_way(), 0U);
  const auto right = send("UPDATE t SET a = 1");
  (void)run(kParsed + kDone + kReadyNow);
  EXPECT_TRUE(right->result);
}

TEST_F(LinkTest, AServerThatLeavesTheProtocolIsLeft) {
  const std::string described =
      "T\0\0\0\x1b\0\1a\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\1"s;
  for (const std::string& words :
       {kReadyNow + kReadyNow, "Z\0\0\0\5T"s, "D\0\0\0\6\0\0"s, kDone + kDone + kReadyNow,
        "\0\0\0\0\0"s, "2\0\0\0\4"s + "D\0\0\0\6\0\5"s, described + "2\0\0\0\4D\0\0\0\6\0\2"s,
        "?\0\0\0\4"s, "HTTP/1.1 400 Bad Request\r\n\r\n"s, "E\0\0\0\5\0"s, "D\x7f\xff\xff\xff"s}) {
    auto pair = std::move(*linux::create_socket_pair(SOCK_STREAM));
    server_ = std::move(pair.first);
    link_ = std::make_unique<Link>(
        *loop_, std::move(*http::create_plain_transport(*loop_, std::move(pair.second))),
        LinkLimits{.answer = {.rows = 3, .row_bytes = 1000},
                   .silence_max = std::chrono::minutes(1)},
        *this);
    const auto request = send("UPDATE t SET a = 1");
    const Error why = run(words, /*then_closes=*/false);
    EXPECT_NE(why.message, "") << words;
    EXPECT_FALSE(link_->is_open());
  }
}

TEST_F(LinkTest, WhoIsClosedTellsThoseWhoWait) {
  const auto request = send("UPDATE t SET a = 1");
  link_.reset();
  ASSERT_TRUE(returned_.size() == 1 || !request->result) << "nothing was said yet";
}

}  // namespace
}  // namespace pons::store::postgres
