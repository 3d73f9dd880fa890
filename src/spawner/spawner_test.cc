#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <vector>

#include "pons/linux/unix_socket.h"
#include "pons/roles/attempts.h"
#include "pons/spawner/client.h"
#include "pons/spawner/protocol.h"

namespace pons::spawner {
namespace {

// ---- the protocol

template <class Message>
std::string wire(const Message& message) {
  return std::string(bytes_of(message));
}

TEST(ProtocolTest, WhatIsWrittenIsRead) {
  const Request request{.kind = RequestKind::kAttempt, .id = 0x0102030405060708, .argument = 9};
  const auto read = parse_request(bytes_of(request));
  ASSERT_TRUE(read);
  EXPECT_EQ(wire(*read), wire(request));
  const Reply reply{
      .status = Status::kBadRequest, .id = 5, .os_error = EPERM, .values = {1, 2, ~0ULL}};
  const auto answer = parse_reply(bytes_of(reply));
  ASSERT_TRUE(answer);
  EXPECT_EQ(wire(*answer), wire(reply));
}

TEST(ProtocolTest, EveryOtherSizeIsRefused) {
  const std::string request = wire(Request{}) + std::string(64, '\0');
  const std::string reply = wire(Reply{}) + std::string(64, '\0');
  for (std::size_t size = 0; size <= 100; ++size) {
    // Copies of their own size, so that the sanitizer sees a read past the end.
    EXPECT_EQ(parse_request(std::string(request, 0, size)).has_value(), size == sizeof(Request));
    EXPECT_EQ(parse_reply(std::string(reply, 0, size)).has_value(), size == sizeof(Reply));
  }
}

TEST(ProtocolTest, EveryChangedBitOfMagicAndVersionIsRefused) {
  for (std::size_t bit = 0; bit < 48; ++bit) {  // 32 of magic, 16 of version
    std::string request = wire(Request{});
    request[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(parse_request(request)) << bit;
    if (bit >= 32) continue;
    std::string reply = wire(Reply{});
    reply[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_FALSE(parse_reply(reply)) << bit;
  }
}

TEST(ProtocolTest, OnlyKnownKindsAndStatusesPass) {
  for (unsigned kind = 0; kind <= 0xFFFF; ++kind)
    EXPECT_EQ(parse_request(bytes_of(Request{.kind = static_cast<RequestKind>(kind), .sandbox = 1}))
                  .has_value(),
              kind >= 1 && kind <= 18);
  for (const std::uint32_t status : {0U, 3U, 4U, 0x80000000U, 0xFFFFFFFFU})
    EXPECT_EQ(parse_reply(bytes_of(Reply{.status = static_cast<Status>(status)})).has_value(),
              status <= 3);
  EXPECT_FALSE(parse_reply(bytes_of(Reply{.step = Step::kCount})));
}

TEST(ProtocolTest, WhatConcernsASandboxNamesOne) {
  for (const RequestKind kind :
       {RequestKind::kCreate, RequestKind::kDestroy, RequestKind::kDial, RequestKind::kOpenNetwork})
    EXPECT_FALSE(parse_request(bytes_of(Request{.kind = kind, .sandbox = 0})));
  EXPECT_TRUE(parse_request(bytes_of(Request{.kind = RequestKind::kList, .sandbox = 0})));
}

TEST(ProtocolTest, ListsLongerThanTheirRoomAreRefused) {
  Request request{.kind = RequestKind::kSwitchView, .sandbox = 1};
  request.view.layer_count = kOwnLayersMax + 1;
  EXPECT_FALSE(parse_request(bytes_of(request)));
  request.view.layer_count = kOwnLayersMax;
  EXPECT_TRUE(parse_request(bytes_of(request)));
  request.create.template_layer_count = kTemplateLayersMax + 1;
  EXPECT_FALSE(parse_request(bytes_of(request)));
}

TEST(ProtocolTest, EveryStepHasAName) {
  for (std::uint32_t step = 0; step < static_cast<std::uint32_t>(Step::kCount); ++step)
    EXPECT_STRNE(name_of(static_cast<Step>(step)), "unknown step") << step;
}

TEST(ProtocolTest, OnlyErrorsThatAKernelCanReportPass) {
  EXPECT_TRUE(parse_reply(bytes_of(Reply{.os_error = kOsErrorMax})));
  // The last one would be 0, "it worked", to whoever looks at 32 bits only.
  for (const std::int64_t error : {std::int64_t{-1}, kOsErrorMax + 1, std::int64_t{1} << 32})
    EXPECT_FALSE(parse_reply(bytes_of(Reply{.os_error = error}))) << error;
}

// ---- the client

class ClientTest : public ::testing::Test {
 protected:
  // Runs the loop until the task ends; fails instead of hanging.
  void run(Task<> task) {
    bool done = false;
    linux::TaskGroup group(*loop_);
    group.spawn(finish(std::move(task), &done));
    group.spawn(give_up());
    loop_->run();
    EXPECT_TRUE(done) << "the task did not end within 20 s";
  }

  std::vector<Request> sent_requests() {
    std::vector<Request> requests;
    for (;;) {
      auto message = linux::receive_message(spawner_end(), sizeof(Request), 0);
      if (!message || !*message) return requests;
      const auto request = parse_request((*message)->bytes);
      EXPECT_TRUE(request);
      if (request) requests.push_back(*request);
    }
  }
  void reply(const Reply& message) {
    EXPECT_TRUE(linux::send_message(spawner_end(), bytes_of(message), {}));
  }
  int spawner_end() const { return ends_.second.get(); }

  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());
  linux::SocketPair ends_ = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  Client client_{*loop_, ends_.first.get(), std::chrono::seconds(15)};

 private:
  Task<> finish(Task<> task, bool* done) {
    co_await std::move(task);
    *done = true;
    loop_->stop();
  }
  Task<> give_up() {
    co_await loop_->sleep_for(std::chrono::seconds(20));
    loop_->stop();
  }
};

Task<> call(Client& client, RequestKind kind, std::uint64_t argument,
            std::optional<Result<Reply>>& out) {
  out.emplace(co_await client.call(kind, argument));
}

Task<> call_twice(Client& client, linux::Loop& loop, std::function<void()> between,
                  std::optional<Result<Reply>>& first, std::optional<Result<Reply>>& second) {
  linux::TaskGroup group(loop);
  group.spawn(call(client, RequestKind::kIdentify, 0, first));
  group.spawn(call(client, RequestKind::kAttempt, 3, second));
  between();
  co_await group.wait_until_empty(kNever);
}

TEST_F(ClientTest, TwoCallsAtOnceGetTheirOwnReplies) {
  std::optional<Result<Reply>> first, second;
  run(call_twice(
      client_, *loop_,
      [&] {
        const auto requests = sent_requests();
        ASSERT_EQ(requests.size(), 2U);
        EXPECT_NE(requests[0].id, requests[1].id);
        EXPECT_EQ(requests[1].argument, 3U);
        reply({.id = requests[1].id, .os_error = EACCES});  // in the other order
        reply({.id = requests[0].id, .values = {42, 0, 0}});
      },
      first, second));
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->values[0], 42U);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->os_error, EACCES);
}

TEST_F(ClientTest, RepliesThatMatchNoCallAreIgnored) {
  std::optional<Result<Reply>> first, second;
  run(call_twice(
      client_, *loop_,
      [&] {
        const auto requests = sent_requests();
        ASSERT_EQ(requests.size(), 2U);
        ASSERT_EQ(send(spawner_end(), "", 0, MSG_NOSIGNAL), 0);
        ASSERT_TRUE(linux::send_message(spawner_end(), "garbage", {}));
        ASSERT_TRUE(linux::send_message(spawner_end(), std::string(500, 'x'), {}));
        reply({.magic = 1, .id = requests[0].id, .values = {1, 1, 1}});
        reply({.id = requests[0].id - 1, .values = {1, 1, 1}});
        reply({.id = requests[1].id + 1, .values = {1, 1, 1}});
        reply({.id = requests[0].id, .values = {7, 7, 7}});
        reply({.id = requests[1].id, .values = {8, 8, 8}});
      },
      first, second));
  ASSERT_TRUE(first && *first && second && *second);
  EXPECT_EQ((*first)->values[0], 7U);
  EXPECT_EQ((*second)->values[0], 8U);
}

TEST_F(ClientTest, ARestartFailsWhatTheFormerProcessHadTakenAndNothingElse) {
  std::optional<Result<Reply>> first, second;
  run(call_twice(
      client_, *loop_,
      [&] {
        const auto requests = sent_requests();
        ASSERT_EQ(requests.size(), 2U);
        reply({.id = kNoticeId, .values = {0}});
        reply({.id = kNoticeId, .values = {requests[1].id}});
        reply({.id = requests[1].id, .values = {8}});
      },
      first, second));
  ASSERT_TRUE(first && !*first && second && *second);
  EXPECT_EQ(first->error().code, ErrorCode::kUnavailable);
  EXPECT_EQ((*second)->values[0], 8U);
  EXPECT_TRUE(client_.begun().is_set());
  // Something is said to the new process, so that it knows which request it found first.
  const auto said = sent_requests();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].kind, RequestKind::kIdentify);
}

TEST_F(ClientTest, WhatTheSpawnerFoundOfAnEarlierWardenCostsNothing) {
  std::optional<Result<Reply>> first, second;
  run(call_twice(
      client_, *loop_,
      [&] {
        const auto requests = sent_requests();
        ASSERT_EQ(requests.size(), 2U);
        reply({.id = kNoticeId, .values = {~0ULL}});
        reply({.id = kNoticeId, .values = {requests[0].id - 1}});
        for (const Request& request : requests) reply({.id = request.id, .values = {7}});
      },
      first, second));
  EXPECT_TRUE(first && *first && second && *second);
}

TEST_F(ClientTest, ARefusalIsAnError) {
  std::optional<Result<Reply>> first, second;
  run(call_twice(
      client_, *loop_,
      [&] {
        for (const Request& request : sent_requests())
          reply({.status = Status::kBadRequest, .id = request.id});
      },
      first, second));
  ASSERT_TRUE(first && !*first);
  EXPECT_EQ(first->error().code, ErrorCode::kInvalid);
}

TEST_F(ClientTest, ASpawnerThatDoesNotAnswerCostsTheDeadlineAndNothingElse) {
  auto other = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  Client impatient(*loop_, other.first.get(), std::chrono::milliseconds(1));
  std::optional<Result<Reply>> late;
  run(call(impatient, RequestKind::kIdentify, 0, late));
  ASSERT_TRUE(late && !*late);
  EXPECT_EQ(late->error().code, ErrorCode::kTimeout);

  // The late reply to the call that is over does not answer the next one.
  auto waiting = linux::receive_message(other.second.get(), sizeof(Request), 0);
  ASSERT_TRUE(waiting && *waiting);
  const Reply late_reply{.id = parse_request((*waiting)->bytes)->id, .values = {1, 1, 1}};
  ASSERT_TRUE(linux::send_message(other.second.get(), bytes_of(late_reply), {}));
  std::optional<Result<Reply>> next;
  run(call(impatient, RequestKind::kIdentify, 0, next));
  ASSERT_TRUE(next && !*next);
  EXPECT_EQ(next->error().code, ErrorCode::kTimeout);
}

TEST_F(ClientTest, AFullChannelIsUnavailableAndNotAHang) {
  while (linux::send_message(ends_.first.get(), bytes_of(Request{}), {})) {
  }
  std::optional<Result<Reply>> refused;
  run(call(client_, RequestKind::kIdentify, 0, refused));
  ASSERT_TRUE(refused && !*refused);
  EXPECT_EQ(refused->error().code, ErrorCode::kUnavailable);
}

TEST_F(ClientTest, CallsAfterTheEndOfTheChannelFailAtOnce) {
  ends_.second.reset();
  std::optional<Result<Reply>> refused;
  run(call(client_, RequestKind::kIdentify, 0, refused));
  ASSERT_TRUE(refused && !*refused);
  EXPECT_EQ(refused->error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace pons::spawner
