#include "pons/linux/unix_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace pons::linux {
namespace {

namespace fs = std::filesystem;

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class UnixSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/pons-socket-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string directory_;
};

// A peer that reads nothing, a full send buffer, and an hour to linger: close() would sleep.
TEST_F(UnixSocketTest, ClosingSomebodyElsesSocketNeverWaits) {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  UniqueFd lingering(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(lingering.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  const UniqueFd peer(accept(listener.get(), nullptr, nullptr));
  const std::string bytes(64 * 1024, 'x');
  while (send(lingering.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  const linger an_hour{.l_onoff = 1, .l_linger = 3600};
  ASSERT_EQ(setsockopt(lingering.get(), SOL_SOCKET, SO_LINGER, &an_hour, sizeof an_hour), 0);
  close_without_waiting(std::move(lingering));
}

TEST_F(UnixSocketTest, ListensWithItsModeWhateverTheUmask) {
  const std::string path = directory_ + "/s";
  const mode_t old_mask = umask(0077);
  const auto open_to_group = listen_unix(path, 0660);
  umask(0);
  const auto narrow = listen_unix(directory_ + "/n", 0600);
  umask(old_mask);
  ASSERT_TRUE(open_to_group) << open_to_group.error().describe();
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0660U);
  ASSERT_EQ(stat((directory_ + "/n").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
}

TEST_F(UnixSocketTest, RefusesToStealALiveSocket) {
  const std::string path = directory_ + "/s";
  const auto listener = listen_unix(path, 0600, 1);
  ASSERT_TRUE(listener);
  EXPECT_EQ(listen_unix(path, 0600).error().code, ErrorCode::kConflict);
  std::vector<UniqueFd> waiting;  // until its backlog is full: it is alive all the same
  for (auto next = connect_unix(path); next; next = connect_unix(path))
    waiting.push_back(std::move(*next));
  EXPECT_EQ(connect_unix(path).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(listen_unix(path, 0600).error().code, ErrorCode::kConflict);
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(UnixSocketTest, ReplacesAStaleSocketButNoOtherFile) {
  const std::string path = directory_ + "/s";
  listen_unix(path, 0600)->reset();
  EXPECT_EQ(connect_unix(path).error().os_error, ECONNREFUSED);
  const auto again = listen_unix(path, 0600);
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_TRUE(connect_unix(path));

  const std::string file = directory_ + "/file";
  ASSERT_TRUE(write_file_atomically(file, "keep", 0600));
  EXPECT_EQ(listen_unix(file, 0600).error().code, ErrorCode::kConflict);
  EXPECT_EQ(*read_file(file), "keep");
}

TEST_F(UnixSocketTest, LongPathsWorkAndLongNamesAreRefused) {
  const std::string deep = directory_ + "/" + std::string(120, 'd');
  ASSERT_TRUE(fs::create_directory(deep));
  const std::string path = deep + "/socket";
  const auto listener = listen_unix(path, 0600);
  ASSERT_TRUE(listener) << listener.error().describe();
  EXPECT_TRUE(fs::is_socket(path));
  EXPECT_TRUE(connect_unix(path));
  EXPECT_EQ(listen_unix(path, 0600).error().code, ErrorCode::kConflict);
  EXPECT_EQ(listen_unix(deep + "/" + std::string(120, 'n'), 0600).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(connect_unix(directory_ + "/none/socket").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(connect_unix(""));
}

TEST_F(UnixSocketTest, PeerCredentialsAreTheKernels) {
  const auto listener = listen_unix(directory_ + "/s", 0600);
  const auto client = connect_unix(directory_ + "/s");
  ASSERT_TRUE(client);
  const auto peer = peer_credentials(client->get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, getuid());
  EXPECT_EQ(peer->gid, getgid());
  EXPECT_FALSE(peer_credentials(create_pipe()->read_end.get()));
}

TEST(Messages, CarryBytesAndDescriptors) {
  const auto pair = *create_socket_pair(SOCK_SEQPACKET);
  auto pipe = *create_pipe();
  const int passed[] = {pipe.write_end.get()};
  ASSERT_TRUE(send_message(pair.first.get(), "hello", passed));
  pipe.write_end.reset();
  auto message = *receive_message(pair.second.get(), 64, 4);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, "hello");
  ASSERT_EQ(message->descriptors.size(), 1U);
  ASSERT_TRUE(write_all(message->descriptors[0].get(), "through"));
  message->descriptors.clear();
  EXPECT_EQ(*read_all(pipe.read_end.get(), 64), "through");
}

TEST(Messages, NothingThereAndTheEndAreDifferent) {
  auto pair = *create_socket_pair(SOCK_SEQPACKET);
  const auto nothing = receive_message(pair.second.get(), 64, 0);
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->has_value());
  pair.first.reset();
  const auto end = receive_message(pair.second.get(), 64, 0);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(end.error().os_error, 0);
}

TEST(Messages, TooManyDescriptorsAreRefusedAndNoneStaysOpen) {
  const auto pair = *create_socket_pair(SOCK_SEQPACKET);
  const int many[] = {0, 1, 2, 0, 1, 2};
  const std::size_t before = open_descriptors();
  // One more fits into the padding of the kernel's buffer for odd limits; many do not.
  for (std::size_t limit : {0U, 1U, 2U, 5U}) {
    ASSERT_TRUE(send_message(pair.first.get(), "x", std::span(many, limit + 1)));
    EXPECT_EQ(receive_message(pair.second.get(), 64, limit).error().code, ErrorCode::kLimit);
    ASSERT_TRUE(send_message(pair.first.get(), "x", many));
    EXPECT_EQ(receive_message(pair.second.get(), 64, limit).error().code, ErrorCode::kLimit);
    EXPECT_EQ(open_descriptors(), before) << limit;
  }
}

TEST(Messages, TooLongIsRefusedWithItsDescriptorsClosed) {
  const auto pair = *create_socket_pair(SOCK_SEQPACKET);
  const int two[] = {0, 1};
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(send_message(pair.first.get(), std::string(65, 'x'), two));
  EXPECT_EQ(receive_message(pair.second.get(), 64, 2).error().code, ErrorCode::kLimit);
  EXPECT_EQ(open_descriptors(), before);
  ASSERT_TRUE(send_message(pair.first.get(), "fits", {}));
  EXPECT_EQ((*receive_message(pair.second.get(), 64, 2))->bytes, "fits");
}

TEST(Messages, FullQueueIsUnavailableAndEmptyMessagesAreRefused) {
  const auto pair = *create_socket_pair(SOCK_SEQPACKET);
  EXPECT_EQ(send_message(pair.first.get(), "", {}).error().code, ErrorCode::kInvalid);
  const std::vector<int> too_many(254, 0);
  EXPECT_EQ(send_message(pair.first.get(), "x", too_many).error().code, ErrorCode::kInvalid);
  Result<void> sent;
  for (int count = 0; count < 10'000 && sent; ++count)
    sent = send_message(pair.first.get(), std::string(4096, 'x'), {});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(sent.error().os_error, EAGAIN);
}

}  // namespace
}  // namespace pons::linux
