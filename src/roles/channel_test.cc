#include "pons/roles/channel.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

namespace pons::roles {
namespace {

using linux::UniqueFd;

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

class ChannelTest : public ::testing::Test {
 protected:
  int caller() const { return ends_.first.get(); }
  int callee() const { return ends_.second.get(); }

  // Serves the channel until nothing waits in it any more, and returns what came.
  std::vector<UniqueFd> accept_all() {
    std::vector<UniqueFd> accepted;
    linux::TaskGroup group(*loop_);
    group.spawn(accept_dialled(*loop_, callee(), [&](Dialled dialled) {
      accepted.push_back(std::move(dialled.socket));
      along_ = dialled.along.size();
    }));
    loop_->spawn(stop_when_drained(group));
    loop_->run();
    return accepted;
  }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  std::size_t along_ = 0;  // descriptors that came with the last one
  linux::SocketPair ends_ = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));

 private:
  Task<> stop_when_drained(linux::TaskGroup& group) {
    char byte;
    do {
      co_await loop_->sleep_for(std::chrono::milliseconds(1));
    } while (group.size() != 0 && recv(callee(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
    loop_->stop();
  }
};

TEST_F(ChannelTest, ACalleeThatIsBackFindsWhoDialledMeanwhile) {
  const auto connection = dial(caller());
  ASSERT_TRUE(connection);
  ASSERT_TRUE(linux::write_all(connection->get(), "asked while you were away"));
  const auto accepted = accept_all();
  ASSERT_EQ(accepted.size(), 1U);
  char text[64] = {};
  EXPECT_GT(read(accepted[0].get(), text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "asked while you were away");
  ASSERT_TRUE(linux::write_all(accepted[0].get(), "answer"));
  EXPECT_EQ(read(connection->get(), text, sizeof text), 6);
}

TEST_F(ChannelTest, AFullChannelIsUnavailableAndNotAHang) {
  std::vector<UniqueFd> waiting;
  for (;;) {
    auto connection = dial(caller());
    if (!connection) {
      EXPECT_EQ(connection.error().code, ErrorCode::kUnavailable);
      break;
    }
    waiting.push_back(std::move(*connection));
    ASSERT_LT(waiting.size(), 5000U) << "there is no bound";
  }
  EXPECT_GT(waiting.size(), 10U);
  EXPECT_EQ(accept_all().size(), waiting.size());
  EXPECT_TRUE(dial(caller()));  // room again
}

TEST_F(ChannelTest, ARefusedDialLeavesNothingOpen) {
  std::vector<UniqueFd> waiting;
  for (auto next = dial(caller()); next; next = dial(caller())) waiting.push_back(std::move(*next));
  const std::size_t before = open_descriptors();
  EXPECT_FALSE(dial(caller()));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ChannelTest, GarbageLeaksNothingAndDoesNotCloseTheDoor) {
  const UniqueFd file(memfd_create("garbage", MFD_CLOEXEC));
  const int one[] = {file.get()};
  const int two[] = {file.get(), file.get()};
  accept_all();
  const std::size_t before = open_descriptors();
  ASSERT_EQ(send(caller(), "", 0, MSG_NOSIGNAL), 0);
  ASSERT_TRUE(linux::send_message(caller(), "dial", {}));
  ASSERT_TRUE(linux::send_message(caller(), "dial", two));
  ASSERT_TRUE(linux::send_message(caller(), "dialled", one));
  ASSERT_TRUE(linux::send_message(caller(), "dia", one));
  ASSERT_TRUE(linux::send_message(caller(), "call", one));
  ASSERT_TRUE(linux::send_message(caller(), std::string(60'000, 'd'), one));
  EXPECT_TRUE(accept_all().empty());
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_EQ(send(caller(), "", 0, MSG_NOSIGNAL), 0);
  const auto connection = dial(caller());
  ASSERT_TRUE(connection);
  EXPECT_EQ(accept_all().size(), 1U);
}

TEST_F(ChannelTest, OnlyAStreamBetweenLocalProcessesIsAConnection) {
  const UniqueFd file(memfd_create("file", MFD_CLOEXEC));
  const UniqueFd internet(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto packets = linux::create_socket_pair(SOCK_SEQPACKET);
  const auto stream = linux::create_socket_pair(SOCK_STREAM);
  ASSERT_TRUE(packets && stream);
  for (const UniqueFd* descriptor : {&file, &internet, &packets->first, &stream->first}) {
    const int number = descriptor->get();
    ASSERT_TRUE(linux::send_message(caller(), "dial", {&number, 1}));
  }
  EXPECT_EQ(accept_all().size(), 1U);
}

TEST_F(ChannelTest, DescriptorsTravelAlong) {
  const auto pipe = linux::create_pipe();
  const int ends[] = {pipe->read_end.get(), pipe->write_end.get()};
  ASSERT_TRUE(dial(caller(), ends));
  EXPECT_EQ(accept_all().size(), 1U);
  EXPECT_EQ(along_, 2U);
}

TEST_F(ChannelTest, TheEndOfTheChannelEndsTheService) {
  linux::TaskGroup group(*loop_);
  ends_.first.reset();
  group.spawn(accept_dialled(*loop_, callee(), [](Dialled) { FAIL(); }));
  EXPECT_EQ(group.size(), 0U);
}

TEST_F(ChannelTest, DiallingWithoutACalleeIsUnavailable) {
  ends_.second.reset();
  const auto refused = dial(caller());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

// Each connection brings the next: the queue is never empty.
TEST_F(ChannelTest, AFloodOfCallsDoesNotKeepTheLoopFromOthers) {
  constexpr int kFlood = 100'000;
  int accepted = 0;
  ASSERT_TRUE(dial(caller()));
  loop_->post([&] { loop_->stop(); });
  loop_->spawn(accept_dialled(*loop_, callee(), [&](Dialled) {
    if (++accepted < kFlood) ASSERT_TRUE(dial(caller()));
  }));
  loop_->run();
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, kFlood);
}

TEST_F(ChannelTest, AnEmptyMessageIsToldApartFromTheEnd) {
  ASSERT_EQ(send(caller(), "", 0, MSG_NOSIGNAL), 0);
  const auto empty = receive_from_role(callee(), 16, 1);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(receive_from_role(callee(), 16, 1).value().has_value());
  ends_.first.reset();
  const auto end = receive_from_role(callee(), 16, 1);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace pons::roles
