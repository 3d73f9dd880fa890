// Requests whose body is still on its way when the answer begins.

#include "client_fixture.h"

namespace pons::http {
namespace {

// A request whose body comes when it is told to, before a server that has read its head.
class DuplexRequestTest : public ClientTest {
 protected:
  DuplexRequestTest() { server_.read_until("\r\n\r\n"); }
  void give(Result<std::string> piece) {
    thread_.call([&] {
      piece_ = std::move(piece);
      told_.set();
    });
  }
  void give_failure(ErrorCode code) { give(make_error(code, "read source", "gone")); }

  linux::Event told_{thread_.loop()};
  Result<std::string> piece_ = "";
  std::future<Result<Fetched>> running_ = start();
  TextPeer server_ = origin_.accept();

 private:
  std::future<Result<Fetched>> start() {
    use();
    return begin({.method = "POST", .body_source = [this] { return next(); }});
  }
  Task<Result<std::string_view>> next() {
    co_await told_.wait(kNever);
    told_.reset();
    if (!piece_) co_return piece_.error();
    co_return std::string_view(*piece_);
  }
};

constexpr std::string_view kAnswerBegun =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n";
constexpr std::string_view kAnswerEnded = "3\r\ntwo\r\n0\r\n\r\n";

TEST_F(DuplexRequestTest, AnAnswerIsReadWhileTheBodyIsSent) {
  server_.send(kAnswerBegun);
  give("later");
  EXPECT_EQ(server_.read_until("later\r\n"), "5\r\nlater\r\n");
  give("");
  EXPECT_EQ(server_.read_until("0\r\n\r\n"), "0\r\n\r\n");
  server_.send(kAnswerEnded);
  EXPECT_EQ(body_of(std::move(running_)), "onetwo");
}

TEST_F(DuplexRequestTest, AnAnswerWhoseRequestFailsIsCutOff) {
  server_.send(kAnswerBegun);
  give_failure(ErrorCode::kUnavailable);
  EXPECT_EQ(failure(std::move(running_)), ErrorCode::kUnavailable);
  EXPECT_FALSE(server_.read_to_end().ends_with("0\r\n\r\n")) << "it must not look complete";
}

TEST_F(DuplexRequestTest, AnAnswerGoesOnWhenTheBodyFallsSilent) {
  server_.send(kAnswerBegun);
  give("heard");
  server_.read_until("heard\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the answer has begun
  give_failure(ErrorCode::kTimeout);
  server_.send(kAnswerEnded);
  EXPECT_EQ(body_of(std::move(running_)), "onetwo");
}

TEST_F(DuplexRequestTest, AnEarlyAnswerThatEndsWithItsConnectionIsWhole) {
  server_.send("HTTP/1.0 413 Too Large\r\n\r\nnot that much");
  server_.finish_sending();
  EXPECT_EQ(body_of(std::move(running_)), "not that much");
}

}  // namespace
}  // namespace pons::http
