#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "pons/linux/fd.h"
#include "pons/store/store_file.h"
#include "store_fixture.h"

namespace pons::store {
namespace {

// A process that writes numbered transactions, several at a time, and tells each number that was
// answered. It ends by being killed.
class CrashTest : public StoreTest {
 protected:
  static Statement add_number(std::int64_t number, const char* half) {
    return {.sql = "INSERT INTO projects (id, name, created) VALUES ($1, $2, $3)",
            .values = {std::to_string(number) + half, std::to_string(number) + half, number}};
  }

  static Task<> write_forever(Store& store, std::int64_t first, std::int64_t step, int tell) {
    for (std::int64_t number = first;; number += step) {
      const auto done = co_await store.write({add_number(number, "a"), add_number(number, "b")});
      if (!done || ::write(tell, &number, sizeof number) != sizeof number) _exit(1);
    }
  }

  [[noreturn]] void live(std::int64_t first, int tell) {
    open();
    if (store_ == nullptr) _exit(1);
    constexpr std::int64_t kWriters = 8;
    for (std::int64_t i = 0; i < kWriters; ++i)
      loop_->spawn(write_forever(*store_, first + i, kWriters, tell));
    loop_->run();
    _exit(1);
  }

  // The numbers that it told before it was killed.
  std::set<std::int64_t> live_and_die(std::int64_t first, std::chrono::microseconds life) {
    auto pipe = linux::create_pipe();
    EXPECT_TRUE(pipe);
    const pid_t child = fork();
    if (child == 0) live(first, pipe->write_end.get());
    pipe->write_end.reset();
    std::set<std::int64_t> told;
    std::int64_t number = 0;
    // The first answer says that it has begun.
    if (read(pipe->read_end.get(), &number, sizeof number) == sizeof number) told.insert(number);
    std::this_thread::sleep_for(life);
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << status;
    while (read(pipe->read_end.get(), &number, sizeof number) == sizeof number) told.insert(number);
    return told;
  }

  static ssize_t read(int fd, void* data, std::size_t size) { return ::read(fd, data, size); }
};

TEST_F(CrashTest, NothingAnsweredIsLostAndNothingIsHalfAfterFiftyKills) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> life(0, 30'000);
  std::set<std::int64_t> told;
  constexpr int kKills = 50;
  for (int round = 0; round < kKills; ++round) {
    told.merge(
        live_and_die(std::int64_t{round} * 1'000'000, std::chrono::microseconds(life(random))));
    if (HasFailure()) return;
  }
  open({.rows = 1'000'000});
  const auto rows = StoreTest::read("SELECT created, count(*) FROM projects GROUP BY created");
  ASSERT_TRUE(rows) << rows.error().describe();
  std::set<std::int64_t> stored;
  for (const Row& row : *rows) {
    stored.insert(std::get<std::int64_t>(row[0]));
    ASSERT_EQ(std::get<std::int64_t>(row[1]), 2) << "half of " << std::get<std::int64_t>(row[0]);
  }
  for (const std::int64_t number : told) ASSERT_TRUE(stored.contains(number)) << number;
  EXPECT_GE(told.size(), static_cast<std::size_t>(kKills));
  store_.reset();
  const auto whole = check_store_file(file_);
  EXPECT_TRUE(whole) << whole.error().describe();
}

}  // namespace
}  // namespace pons::store
