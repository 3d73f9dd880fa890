// Servers that write frames by hand, against the client's side.

#include "http2_fixture.h"

// NOLINTBEGIN(cppcoreguidelines-avoid-capturing-lambda-coroutines): the fixture's run() and
// handle_with() and each request keep their lambdas for as long as the coroutines run.

namespace pons::http {
namespace {

using namespace std::chrono_literals;

class Http2ClientTest : public Http2Test {
 protected:
  void connect(Http2Limits limits = Http2Limits::for_client()) {
    auto [ours, theirs] = make_pair();
    client_ = &client_over(std::move(ours), limits);
    server_.emplace(std::move(theirs));
    EXPECT_EQ(server_->read_exactly(kMagic.size()), kMagic);
    server_->send(frame(kSettings, 0, 0));
  }
  std::future<Result<std::string>> ask(ClientRequest request = {}) {
    auto answer = thread_.start([&, shared = std::make_shared<ClientRequest>(std::move(request))] {
      return fetch(*client_, std::move(*shared));
    });
    EXPECT_EQ(server_->read_frame(kHeaders).type, kHeaders);
    return answer;
  }
  void answer(std::uint32_t stream, const Pairs& fields, int flags = kEndHeaders) {
    server_->send(frame(kHeaders, flags, stream, hpack(fields)));
  }
  // The error of a request whose answer is `bytes`.
  ErrorCode error_after(std::string_view bytes) {
    connect();
    auto waiting = ask();
    server_->send(bytes);
    const auto got = thread_.finish(std::move(waiting));
    return got ? ErrorCode::kInternal : got.error().code;
  }
  bool is_usable() {
    return thread_.call([&] { return client_->is_usable(); });
  }

  Http2Client* client_ = nullptr;
  std::optional<FramePeer> server_;
};

std::string head(const Pairs& fields, int flags = kEndHeaders) {
  return frame(kHeaders, flags, 1, hpack(fields));
}

TEST_F(Http2ClientTest, InterimAnswersAreSkipped) {
  connect();
  auto waiting = ask();
  answer(1, {{":status", "103"}, {"link", "x"}});
  answer(1, {{":status", "100"}});
  answer(1, {{":status", "200"}});
  server_->send(frame(kData, kEndStream, 1, "body"));
  EXPECT_EQ(*thread_.finish(std::move(waiting)), "body");
}

TEST_F(Http2ClientTest, AnswersThatBreakTheRulesAreErrors) {
  const Pairs ok = {{":status", "200"}};
  const auto with = [](std::string name, std::string value) {
    return Pairs{{":status", "200"}, {name, value}};
  };
  for (const std::string& bytes : std::vector<std::string>{
           head({{"x", "y"}}),
           head({{":status", "abc"}}),
           head({{":status", "999"}}),
           head({{":status", "101"}}),
           head({{":status", "200"}, {":status", "200"}}),
           head({{":status", "200"}, {":path", "/"}}),
           head(with("X", "y")),
           head(with("x", "a\r\nb")),
           head(with("connection", "close")),
           head(with("transfer-encoding", "chunked")),
           head(with("content-length", "3")) + frame(kData, kEndStream, 1, "1234"),
           head(with("content-length", "5")) + frame(kData, kEndStream, 1, "1234"),
           head(with("content-length", "5"), kEndHeaders | kEndStream),
           frame(kData, kEndStream, 1, "no head"),
           head(ok) + head({{"x", "y"}}),
           head(ok) + head({{":status", "200"}}, kEndHeaders | kEndStream),
           head(ok) + head({{"host", "b"}}, kEndHeaders | kEndStream),
           frame(kPushPromise, kEndHeaders, 1, number(2) + hpack(request_fields())),
           frame(kSettings, 0, 0, number(2, 2) + number(1)),  // push, from a server
           frame(kWindowUpdate, 0, 0, number(0)),
           frame(kHeaders, 0, 1) + frame(kData, 0, 1, "x"),
           frame(kHeaders, kEndHeaders, 2, hpack(ok)),
           frame(kHeaders, kEndHeaders, 1, "\xff")})
    EXPECT_EQ(error_after(bytes), ErrorCode::kInvalid) << testing::PrintToString(bytes);
}

TEST_F(Http2ClientTest, HeadsPastTheLimitAreErrors) {
  Pairs many(200, {"x", "y"});
  many.insert(many.begin(), {":status", "200"});
  EXPECT_EQ(error_after(head(many)), ErrorCode::kInvalid);
  std::string interim;
  for (int i = 0; i < 30; ++i) interim += head({{":status", "103"}});
  EXPECT_EQ(error_after(interim), ErrorCode::kInvalid);
}

TEST_F(Http2ClientTest, FloodsEndTheConnection) {
  for (const std::string& nuisance :
       std::vector<std::string>{frame(kSettings, 0, 0), frame(kPing, 0, 0, "12345678")}) {
    connect();
    auto waiting = ask();
    std::string flood;
    for (int i = 0; i < 1000; ++i) flood += nuisance;
    for (int i = 0; i < 100; ++i)
      if (!server_->try_send(flood)) break;
    EXPECT_FALSE(thread_.finish(std::move(waiting)).has_value());
    EXPECT_TRUE(thread_.eventually([&] { return !client_->is_usable(); }));
  }
}

TEST_F(Http2ClientTest, AnswerCutShortIsNeverAnEnd) {
  EXPECT_EQ(error_after(head({{":status", "200"}}) + frame(kData, 0, 1, "part") +
                        frame(kRstStream, 0, 1, number(0))),
            ErrorCode::kUnavailable);
  connect();
  auto waiting = ask();
  server_->send(head({{":status", "200"}}) + frame(kData, 0, 1, "part"));
  server_->close();
  EXPECT_EQ(thread_.finish(std::move(waiting)).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(is_usable());
}

TEST_F(Http2ClientTest, EarlyAnswerIsHeardWhileTheBodyWaits) {
  connect();
  const std::string piece(10'000, 'x');
  auto waiting = ask({.method = "POST", .body_source = [&]() -> Task<Result<std::string_view>> {
                        co_return std::string_view(piece);  // without end
                      }});
  answer(1, {{":status", "413"}});
  server_->send(frame(kData, kEndStream, 1, "too large") + frame(kRstStream, 0, 1, number(0)));
  EXPECT_EQ(*thread_.finish(std::move(waiting)), "too large");
  EXPECT_TRUE(is_usable());
}

TEST_F(Http2ClientTest, StreamsTheServerDidNotProcessSaySo) {
  connect();
  auto first = ask();
  auto second = ask();
  server_->send(frame(kGoaway, 0, 0, number(1) + number(0)));
  const auto lost = thread_.finish(std::move(second));
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(lost.error().message.find("not processed"), std::string::npos);
  EXPECT_FALSE(is_usable());
  run([&]() -> Task<> {
    const auto third = co_await client_->send({});
    EXPECT_EQ(third.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(third.error().message.find("not processed"), std::string::npos);
  });
  server_->send(head({{":status", "200"}}) + frame(kData, kEndStream, 1, "still"));
  EXPECT_EQ(*thread_.finish(std::move(first)), "still");
}

TEST_F(Http2ClientTest, RefusedStreamSaysSo) {
  connect();
  auto waiting = ask();
  server_->send(frame(kRstStream, 0, 1, number(7)));
  const auto refused = thread_.finish(std::move(waiting));
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("not processed"), std::string::npos);
  EXPECT_TRUE(is_usable());
}

TEST_F(Http2ClientTest, SilentServerIsGivenUp) {
  Http2Limits limits = Http2Limits::for_client();
  limits.first_byte_time = limits.body_idle_time = 20ms;
  connect(limits);
  EXPECT_EQ(thread_.finish(ask()).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(server_->read_frame(kRstStream).stream, 1);
  auto waiting = ask();
  answer(3, {{":status", "200"}});
  EXPECT_EQ(thread_.finish(std::move(waiting)).error().code, ErrorCode::kTimeout);
  limits.header_time = 20ms;
  auto [ours, theirs] = make_pair();
  Http2Client& mute = client_over(std::move(ours), limits);
  EXPECT_TRUE(thread_.eventually([&] { return !mute.is_usable(); }));
}

TEST_F(Http2ClientTest, ServerThatVanishedIsAskedForASignAndGivenUp) {
  Http2Limits limits = Http2Limits::for_client();
  limits.silence_time = limits.sign_of_life_time = 20ms;
  connect(limits);
  auto waiting = ask();
  EXPECT_EQ(server_->read_frame(kPing).flags, kNoFlag);
  EXPECT_EQ(thread_.finish(std::move(waiting)).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(thread_.eventually([&] { return !client_->is_usable(); }));
}

TEST_F(Http2ClientTest, ServerThatGivesASignIsWaitedFor) {
  Http2Limits limits = Http2Limits::for_client();
  limits.silence_time = 20ms;
  limits.sign_of_life_time = 1min;
  connect(limits);
  auto waiting = ask();
  for (int i = 0; i < 3; ++i) {
    const Frame ping = server_->read_frame(kPing);
    server_->send(frame(kPing, kAck, 0, ping.payload));
  }
  server_->send(head({{":status", "200"}}) + frame(kData, kEndStream, 1, "late"));
  EXPECT_EQ(*thread_.finish(std::move(waiting)), "late");
  EXPECT_TRUE(is_usable());
}

TEST_F(Http2ClientTest, ZeroWindowIsGivenUpAfterTheStall) {
  Http2Limits limits = Http2Limits::for_client();
  limits.write_stall = 20ms;
  connect(limits);
  const std::string piece(10'000, 'x');
  auto waiting = ask({.method = "POST", .body_source = [&]() -> Task<Result<std::string_view>> {
                        co_return std::string_view(piece);
                      }});
  EXPECT_EQ(thread_.finish(std::move(waiting)).error().code, ErrorCode::kTimeout);
}

TEST_F(Http2ClientTest, AnswersMayOutliveTheirClient) {
  connect();
  run([&]() -> Task<> {
    linux::TaskGroup group(thread_.loop());
    server_->send(head({{":status", "200"}}) + frame(kData, 0, 1, "part"));
    auto response = co_await client_->send({});
    EXPECT_TRUE(response.has_value());
    clients_.clear();
    EXPECT_FALSE((co_await response->read_body()).has_value());
  });
}

}  // namespace
}  // namespace pons::http

// NOLINTEND(cppcoreguidelines-avoid-capturing-lambda-coroutines)
