#include "pons/roles/keeper.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <thread>

#include <fmt/format.h>

#include "pons/linux/process.h"

namespace pons::roles {
namespace {

using linux::UniqueFd;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

UniqueFd memory_file(std::string_view text) {
  UniqueFd file(memfd_create("kept", MFD_CLOEXEC));
  EXPECT_TRUE(linux::write_all(file.get(), text));
  return file;
}

std::string text_of(const UniqueFd& file) {
  char text[256];
  const ssize_t size = pread(file.get(), text, sizeof text, 0);
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
}

// ---- the store alone

TEST(DescriptorStoreTest, KeepsOnlyVisibleNamesOfModestLength) {
  DescriptorStore store;
  EXPECT_TRUE(store.put(std::string(kKeptNameBytesMax, 'n'), UniqueFd()));
  EXPECT_TRUE(store.put("cell:42/listener~", UniqueFd()));
  const std::string with_zero("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string(kKeptNameBytesMax + 1, 'n'), std::string("a b"),
        std::string("a\nb"), std::string("\x7F"), std::string("\xC3\xA4"), with_zero}) {
    const auto put = store.put(name, UniqueFd());
    ASSERT_FALSE(put) << name;
    EXPECT_EQ(put.error().code, ErrorCode::kInvalid);
    const auto dropped = store.drop(name);
    ASSERT_FALSE(dropped) << name;
    EXPECT_EQ(dropped.error().code, ErrorCode::kInvalid);
  }
  EXPECT_EQ(store.items().size(), 2U);
}

TEST(DescriptorStoreTest, TakesNoMoreThanItsLimitAndStillReplaces) {
  DescriptorStore store;
  for (std::size_t i = 0; i < kKeptDescriptorsMax; ++i)
    ASSERT_TRUE(store.put(fmt::format("name-{}", i), UniqueFd()));
  const auto one_more = store.put("one-more", UniqueFd());
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, ErrorCode::kLimit);
  EXPECT_TRUE(store.put("name-7", memory_file("new")));
  EXPECT_EQ(text_of(store.items().find("name-7")->second), "new");
  EXPECT_TRUE(store.drop("name-8"));
  EXPECT_TRUE(store.put("one-more", UniqueFd()));
}

TEST(DescriptorStoreTest, ReplacingAndDroppingCloseWhatWasKept) {
  DescriptorStore store;
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(store.put("name", memory_file("old")));
  ASSERT_TRUE(store.put("name", memory_file("new")));
  EXPECT_EQ(open_descriptors(), before + 1);
  ASSERT_TRUE(store.drop("name"));
  EXPECT_EQ(open_descriptors(), before);
  const auto again = store.drop("name");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kNotFound);
}

// ---- over a line

// The supervisor's side: lines served by a loop in a thread of its own.
class KeeperTest : public ::testing::Test {
 protected:
  KeeperTest() {
    EXPECT_TRUE(linux::raise_descriptor_limit());
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~KeeperTest() override {
    loop_->stop();
    thread_.join();
  }

  // Runs `work` in the loop's thread and waits for it.
  void on_loop(std::function<void()> work) {
    std::promise<void> done;
    loop_->post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  // The role's end of a new line to `store`.
  UniqueFd open_line(DescriptorStore& store) {
    auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
    on_loop([&] {
      loop_->spawn(serve_keeper(*loop_, ends.first.get(), store, [this] { ++ready_calls_; }));
      served_.push_back(std::move(ends.first));
    });
    return std::move(ends.second);
  }

  // What the supervisor answers to one raw message.
  std::string answer_to(int line, std::string_view bytes, std::span<const int> descriptors) {
    if (bytes.empty()) {  // send_message refuses to, a hostile role does not
      EXPECT_EQ(send(line, "", 0, MSG_NOSIGNAL), 0);
    } else {
      EXPECT_TRUE(linux::send_message(line, bytes, descriptors));
    }
    for (int tries = 0; tries < 10'000; ++tries) {
      auto message = linux::receive_message(line, 512, 1);
      if (!message) return message.error().describe();
      if (*message) return (*message)->bytes;
      usleep(1000);
    }
    return "no answer";
  }

  DescriptorStore store_;
  int ready_calls_ = 0;
  std::vector<UniqueFd> served_;
  std::unique_ptr<linux::Loop> loop_ = std::move(*linux::Loop::create());

 private:
  std::thread thread_;
};

TEST_F(KeeperTest, WhatWasPutComesBackUnderItsName) {
  const UniqueFd line = open_line(store_);
  Keeper keeper(line.get());
  ASSERT_TRUE(keeper.put("a", memory_file("first").get()));
  ASSERT_TRUE(keeper.put("b", memory_file("second").get()));
  ASSERT_TRUE(keeper.put("a", memory_file("replaced").get()));
  for (int round = 0; round < 2; ++round) {  // the supervisor keeps its own
    const auto kept = keeper.take_back();
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->size(), 2U);
    EXPECT_EQ((*kept)[0].name, "a");
    EXPECT_EQ(text_of((*kept)[0].descriptor), "replaced");
    EXPECT_EQ((*kept)[1].name, "b");
    EXPECT_EQ(text_of((*kept)[1].descriptor), "second");
  }
  ASSERT_TRUE(keeper.drop("a"));
  EXPECT_EQ(keeper.take_back()->size(), 1U);
}

TEST_F(KeeperTest, SeveralGoInOneMessage) {
  const UniqueFd line = open_line(store_);
  Keeper keeper(line.get());
  const UniqueFd first = memory_file("first");
  const UniqueFd second = memory_file("second");
  const Keeper::Put all[] = {{"a", first.get()}, {"b", second.get()}};
  ASSERT_TRUE(keeper.put_soon(all));
  const auto kept = keeper.take_back();
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_EQ(text_of((*kept)[0].descriptor), "first");
  EXPECT_EQ(text_of((*kept)[1].descriptor), "second");
  const std::string names[] = {"a", "not-there", "b"};
  ASSERT_TRUE(keeper.drop_soon(names));
  EXPECT_EQ(keeper.take_back()->size(), 0U);
}

TEST_F(KeeperTest, ReadyIsToldOncePerWord) {
  const UniqueFd line = open_line(store_);
  EXPECT_TRUE(Keeper(line.get()).say_ready());
  on_loop([&] { EXPECT_EQ(ready_calls_, 1); });
}

TEST_F(KeeperTest, RefusalsSayWhy) {
  const UniqueFd line = open_line(store_);
  Keeper keeper(line.get());
  const auto unknown = keeper.drop("never-put");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("never-put"));
  const auto bad_name = keeper.put("two words", memory_file("").get());
  ASSERT_FALSE(bad_name);
  EXPECT_THAT(bad_name.error().message, HasSubstr("visible characters"));
  // The longest message there can be: the answer must not outgrow what the role will read.
  const auto long_name = keeper.drop(std::string(500, 'n'));
  ASSERT_FALSE(long_name);
  EXPECT_THAT(long_name.error().message, HasSubstr("visible characters"));
  EXPECT_TRUE(keeper.say_ready());
}

TEST_F(KeeperTest, TwoThousandComeBackComplete) {
  constexpr int kCount = 2000;
  const UniqueFd line = open_line(store_);
  Keeper keeper(line.get());
  for (int i = 0; i < kCount; ++i) {
    const std::string name = fmt::format("cell-{}", i);
    ASSERT_TRUE(keeper.put(name, memory_file(name).get()));
  }
  const UniqueFd next_line = open_line(store_);
  const auto kept = Keeper(next_line.get()).take_back();
  ASSERT_TRUE(kept) << kept.error().describe();
  ASSERT_EQ(kept->size(), static_cast<std::size_t>(kCount));
  for (const auto& item : *kept) EXPECT_EQ(text_of(item.descriptor), item.name);
}

// More answers than the socket holds wait for a role that never reads them.
TEST_F(KeeperTest, ARoleThatNeverReadsDoesNotBlockOthers) {
  constexpr int kCount = 2000;
  on_loop([&] {
    const UniqueFd null = memory_file("");
    for (int i = 0; i < kCount; ++i)
      ASSERT_TRUE(store_.put(fmt::format("n{}", i), std::move(*linux::duplicate(null.get()))));
  });
  const UniqueFd deaf = open_line(store_);
  ASSERT_TRUE(linux::send_message(deaf.get(), "list", {}));
  DescriptorStore other_store;
  const UniqueFd other = open_line(other_store);
  Keeper keeper(other.get());
  EXPECT_TRUE(keeper.say_ready());
  EXPECT_TRUE(keeper.put("mine", memory_file("").get()));
  EXPECT_EQ(keeper.take_back()->size(), 1U);
  on_loop([] {});
  // Its answers were held back, not lost: reading at last brings all of them.
  int items = 0;
  for (std::string bytes; bytes != "end";) {
    auto message = linux::receive_message(deaf.get(), 512, 1);
    ASSERT_TRUE(message);
    if (!*message) continue;
    bytes = (*message)->bytes;
    if (bytes.starts_with("item ")) ++items;
  }
  EXPECT_EQ(items, kCount);
  loop_->stop();  // before other_store goes
}

TEST_F(KeeperTest, MalformedMessagesAreRefusedLeakNothingAndDoNotEndTheService) {
  const UniqueFd line = open_line(store_);
  const UniqueFd file = memory_file("");
  const int one[] = {file.get()};
  const int two[] = {file.get(), file.get()};
  const std::vector<int> many(253, file.get());
  struct Case {
    std::string bytes;
    std::span<const int> descriptors;
  };
  const Case cases[] = {
      {"", {}},
      {"put", one},
      {"put name", {}},
      {"put name", two},
      {"put a b c d e f g h i", std::span(many).first(9)},
      {"put name", many},
      {"put two words", one},
      {"put two \x01", two},
      {"put  name", two},
      {"put \x01", one},
      {" put name", one},
      {"PUT name", one},
      {"put " + std::string(600, 'n'), one},
      {"put " + std::string(1100, 'n'), one},
      {std::string(60'000, 'x'), many},
      {std::string("\0\0\0", 3), one},
      {"drop", {}},
      {"drop unknown", one},
      {"drop " + std::string(507, 'n'), {}},
      {"item name", one},
      {"ok", {}},
      {"end", two},
  };
  ASSERT_TRUE(Keeper(line.get()).say_ready());
  const std::size_t before = open_descriptors();
  for (const Case& test : cases) {
    EXPECT_THAT(answer_to(line.get(), test.bytes, test.descriptors), StartsWith("error "))
        << test.bytes.substr(0, 80);
    EXPECT_EQ(open_descriptors(), before) << test.bytes.substr(0, 80);
  }
  EXPECT_TRUE(Keeper(line.get()).say_ready());
  on_loop([&] { EXPECT_TRUE(store_.items().empty()); });
}

// Descriptors beside requests that need none are closed.
TEST_F(KeeperTest, UninvitedDescriptorsAreClosed) {
  const UniqueFd line = open_line(store_);
  const UniqueFd file = memory_file("");
  const int one[] = {file.get()};
  const std::size_t before = open_descriptors();
  EXPECT_EQ(answer_to(line.get(), "ready", one), "ok");
  EXPECT_EQ(answer_to(line.get(), "list", one), "end");
  EXPECT_EQ(open_descriptors(), before);
}

// ---- across the death of a process

int exit_status_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(KeeperTest, AnOpenFileOutlivesTheProcessThatWasKilled) {
  char path[] = "/tmp/pons-keeper-XXXXXX";
  const UniqueFd created(mkstemp(path));
  struct stat original{};
  ASSERT_EQ(fstat(created.get(), &original), 0);

  const UniqueFd first_line = open_line(store_);
  const pid_t first = fork();
  if (first == 0) {
    const auto file = linux::open_file(path, O_RDWR);
    if (!file || !linux::write_all(file->get(), "first")) _exit(1);
    if (!Keeper(first_line.get()).put("file", file->get())) _exit(2);
    kill(getpid(), SIGKILL);
  }
  EXPECT_EQ(exit_status_of(first), -SIGKILL);

  const UniqueFd second_line = open_line(store_);
  const pid_t second = fork();
  if (second == 0) {
    const auto kept = Keeper(second_line.get()).take_back();
    if (!kept || kept->size() != 1 || (*kept)[0].name != "file") _exit(1);
    const int file = (*kept)[0].descriptor.get();
    struct stat same{};
    if (fstat(file, &same) != 0 || same.st_ino != original.st_ino) _exit(2);
    if (lseek(file, 0, SEEK_CUR) != 5) _exit(3);  // the same open file, not the same name again
    _exit(linux::write_all(file, "+second") ? 0 : 4);
  }
  EXPECT_EQ(exit_status_of(second), 0);
  EXPECT_EQ(text_of(created), "first+second");
  unlink(path);
}

// ---- one loop, no thread

// Whoever always has one more request in the queue would keep the loop busy for ever.
TEST(KeeperFairnessTest, AFloodOfRequestsDoesNotKeepTheLoopFromOthers) {
  constexpr int kFlood = 100'000;
  auto loop = std::move(*linux::Loop::create());
  const auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  DescriptorStore store;
  int calls = 0;
  ASSERT_TRUE(linux::send_message(ends.second.get(), "ready", {}));
  loop->post([&] { loop->stop(); });
  loop->spawn(serve_keeper(*loop, ends.first.get(), store, [&] {
    while (linux::receive_message(ends.second.get(), 512, 1).value()) {
    }
    if (++calls < kFlood) ASSERT_TRUE(linux::send_message(ends.second.get(), "ready", {}));
  }));
  loop->run();
  EXPECT_GT(calls, 0);
  EXPECT_LT(calls, kFlood);
}

TEST(KeeperTimeoutTest, ALateAnswerIsNeverTakenForTheNextOne) {
  const auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  Keeper keeper(ends.second.get(), std::chrono::milliseconds(1));
  const auto unanswered = keeper.say_ready();
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().code, ErrorCode::kTimeout);
  ASSERT_TRUE(linux::send_message(ends.first.get(), "ok", {}));
  const auto next = keeper.put("name", ends.first.get());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::kUnavailable);
  const auto list = keeper.take_back();
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, ErrorCode::kUnavailable);
}

TEST(KeeperTimeoutTest, ASupervisorThatIsGoneIsAnErrorAtOnce) {
  auto ends = std::move(*linux::create_socket_pair(SOCK_SEQPACKET));
  ends.first.reset();
  Keeper keeper(ends.second.get());
  const auto refused = keeper.say_ready();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace pons::roles
