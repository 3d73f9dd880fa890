#include "role_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "pons/http/server.h"
#include "pons/linux/unix_socket.h"
#include "pons/roles/channel.h"

namespace pons::front {
namespace {

// A role behind a channel that answers at once, on one path never, and as a whole only while it is
// well.
class RoleLineTest : public ::testing::Test {
 protected:
  RoleLineTest()
      : loop_(std::move(*linux::Loop::create())),
        channel_(std::move(*linux::create_socket_pair(SOCK_SEQPACKET))),
        server_(*loop_, {}, [this](http::Exchange& exchange) { return answer(exchange); }),
        health_(*loop_, connect_directly(), "role"),
        line_(*loop_, "role", channel_.first.get(), health_),
        tasks_(*loop_) {
    tasks_.spawn(
        roles::accept_dialled(*loop_, channel_.second.get(), [this](roles::Dialled dialled) {
          EXPECT_TRUE(server_.serve(std::move(dialled.socket), {.role = "front"}).has_value());
        }));
    tasks_.spawn(line_.watch());
  }

  http::Connector connect_directly() {
    return [this](TimePoint) { return connect(); };
  }
  Task<Result<std::unique_ptr<http::Transport>>> connect() {
    CO_TRY(auto socket, roles::dial(channel_.first.get()));
    co_return http::create_plain_transport(*loop_, std::move(socket));
  }

  Task<> answer(http::Exchange& exchange) {
    while (!well_ || exchange.request().path() == "/never")
      co_await loop_->sleep_for(std::chrono::milliseconds(10));
    exchange.respond({.body = "{}"});
  }

  static Task<Result<int>> ask(http::Client& client, std::string target) {
    CO_TRY(auto response, co_await client.send({.target = std::move(target)}));
    CO_TRY_VOID(co_await response.read_whole_body(100));
    co_return response.status();
  }

  // The loop is the test's own: it runs until the work is done.
  void run(Task<> work) {
    loop_->spawn(finish(std::move(work)));
    loop_->run();
  }
  Task<> finish(Task<> work) {
    co_await std::move(work);
    loop_->stop();
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::SocketPair channel_;
  bool well_ = true;
  http::Server server_;
  http::Client health_;
  RoleLine line_;
  linux::TaskGroup tasks_;  // last: its tasks use all of the above
};

TEST_F(RoleLineTest, StreamsLeaveRoomForQuestions) {
  http::Client streams(*loop_, line_.connector(2), "role");
  http::Client questions(*loop_, line_.connector(4), "role");
  run([](auto& test, auto& long_ones, auto& short_ones) -> Task<> {
    linux::TaskGroup open(*test.loop_);
    const auto follow = [](http::Client& client) -> Task<> {
      (void)co_await client.send({.target = "/never"});
    };
    open.spawn(follow(long_ones));
    open.spawn(follow(long_ones));
    EXPECT_EQ(test.line_.open(), 2u);
    const auto refused = co_await ask(long_ones, "/");
    EXPECT_EQ(refused.error().code, ErrorCode::kLimit);
    EXPECT_EQ(co_await ask(short_ones, "/"), 200);
    open.cancel_all();
    EXPECT_EQ(co_await ask(long_ones, "/"), 200);
  }(*this, streams, questions));
}

TEST_F(RoleLineTest, RoleThatDoesNotAnswerIsFoundOutAndTriedAgain) {
  http::Client client(*loop_, line_.connector(10), "role",
                      {.first_byte_time = std::chrono::hours(1)});
  run([](auto& test, auto& one) -> Task<> {
    test.well_ = false;
    const auto cut = co_await ask(one, "/");
    EXPECT_EQ(cut.error().code, ErrorCode::kUnavailable);
    EXPECT_TRUE(test.line_.is_stuck());
    EXPECT_EQ((co_await ask(one, "/")).error().code, ErrorCode::kUnavailable);
    test.well_ = true;
    while (test.line_.is_stuck()) co_await test.loop_->sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(co_await ask(one, "/"), 200);
  }(*this, client));
}

// What takes long is no reason to give up a role that answers others.
TEST_F(RoleLineTest, LongAnswerOfARoleThatIsWellIsWaitedFor) {
  http::Client client(*loop_, line_.connector(10), "role",
                      {.first_byte_time = std::chrono::seconds(3)});
  run([](auto& test, auto& one) -> Task<> {
    const auto slow = co_await ask(one, "/never");
    EXPECT_EQ(slow.error().code, ErrorCode::kTimeout);
    EXPECT_FALSE(test.line_.is_stuck());
  }(*this, client));
}

}  // namespace
}  // namespace pons::front
