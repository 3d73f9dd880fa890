#include "pons/spawner/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>

#include "pons/linux/unix_socket.h"

namespace pons::spawner {
namespace {

// A spawner that gives one answer to every request.
class SandboxCallTest : public ::testing::Test {
 protected:
  std::optional<Result<SpawnerReply>> ask(Reply answer, std::size_t descriptors = 0) {
    std::optional<Result<SpawnerReply>> result;
    linux::TaskGroup group(*loop_);
    group.spawn(call(result));
    auto asked = linux::receive_message(ends_.second.get(), sizeof(Request), 0);
    CHECK(asked && *asked);
    answer.id = parse_request((*asked)->bytes)->id;
    const std::vector<int> sent(descriptors, ends_.second.get());
    CHECK(linux::send_message(ends_.second.get(), bytes_of(answer), sent));
    loop_->run();
    return result;
  }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  linux::SocketPair ends_ = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  Client client_{*loop_, ends_.first.get()};

 private:
  Task<> call(std::optional<Result<SpawnerReply>>& result) {
    Request request;
    request.kind = RequestKind::kCreate;
    request.sandbox = 5;
    result.emplace(co_await client_.call(request, std::chrono::milliseconds(500)));
    loop_->stop();
  }
};

TEST_F(SandboxCallTest, TheDescriptorComesWithItsReply) {
  const auto result = ask({.values = {9}}, 1);
  ASSERT_TRUE(result && *result);
  EXPECT_EQ((*result)->reply.values[0], 9U);
  EXPECT_EQ((*result)->descriptors.size(), 1U);
}

TEST_F(SandboxCallTest, AFailureNamesItsStepAndTheKernelsWord) {
  const auto result = ask({.status = Status::kFailed, .os_error = ENOSPC, .step = Step::kOverlay});
  ASSERT_TRUE(result && !*result);
  EXPECT_STREQ(result->error().step, "mount overlay");
  EXPECT_EQ(result->error().os_error, ENOSPC);
  EXPECT_EQ(result->error().code, ErrorCode::kLimit);
}

TEST_F(SandboxCallTest, AnUnknownSandboxIsNotFound) {
  const auto result = ask({.status = Status::kNoSuchSandbox});
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(result->error().code, ErrorCode::kNotFound);
}

TEST_F(SandboxCallTest, MoreDescriptorsThanAnyReplyHasAreRefusedWithIt) {
  const auto result = ask({}, kReplyDescriptorsMax + 1);
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(result->error().code, ErrorCode::kTimeout);
}

}  // namespace
}  // namespace pons::spawner
