#include "pons/linux/loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

namespace pons::linux {
namespace {

using std::chrono::milliseconds;

class LoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(*Loop::create());
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    a_ = UniqueFd(ends[0]);
    b_ = UniqueFd(ends[1]);
  }

  // Runs the loop until the task ends; fails instead of hanging.
  void run(Task<> task) {
    bool done = false;
    loop_->spawn(finish(std::move(task), &done));
    loop_->spawn(give_up());
    if (!done) loop_->run();
    EXPECT_TRUE(done) << "the task did not end within 10 s";
  }

  std::unique_ptr<Loop> loop_;
  UniqueFd a_, b_;

 private:
  Task<> finish(Task<> task, bool* done) {
    co_await std::move(task);
    *done = true;
    loop_->stop();
  }
  Task<> give_up() {
    co_await loop_->sleep_for(std::chrono::seconds(10));
    loop_->stop();
  }
};

Task<> read_one(Loop& loop, int fd, char* out) {
  auto watch = std::move(*Watch::create(loop, fd));
  while (read(fd, out, 1) != 1) co_await watch.readable(kNever);
}

Task<> wait_to_write(Loop& loop, int fd, Wait* outcome) {
  auto watch = std::move(*Watch::create(loop, fd));
  co_await watch.readable(kNever);  // the peer's end of sending is known from here on
  const std::string piece(64 * 1024, 'x');
  while (write(fd, piece.data(), piece.size()) > 0) {
  }
  *outcome = co_await watch.writable(loop.now() + milliseconds(10));
}

TEST_F(LoopTest, PeerThatOnlyFinishedSendingIsWaitedForUntilItReads) {
  ASSERT_EQ(shutdown(b_.get(), SHUT_WR), 0);
  Wait outcome = Wait::kReady;
  run(wait_to_write(*loop_, a_.get(), &outcome));
  EXPECT_EQ(outcome, Wait::kTimeout);
}

TEST_F(LoopTest, ReadableWakesWhenBytesArrive) {
  char got = 0;
  loop_->post([this] { EXPECT_EQ(write(b_.get(), "x", 1), 1); });
  run(read_one(*loop_, a_.get(), &got));
  EXPECT_EQ(got, 'x');
}

Task<> expect_timeout(Loop& loop, int fd) {
  auto watch = std::move(*Watch::create(loop, fd));
  char c;
  EXPECT_EQ(read(fd, &c, 1), -1);
  Wait outcome = Wait::kReady;
  // The first wake-up may be spurious; the deadline is not.
  const TimePoint deadline = loop.now() + milliseconds(20);
  for (int i = 0; i < 3 && outcome == Wait::kReady; ++i)
    outcome = co_await watch.readable(deadline);
  EXPECT_EQ(outcome, Wait::kTimeout);
}

TEST_F(LoopTest, EveryWaitEndsAtItsDeadline) {
  run(expect_timeout(*loop_, a_.get()));
}

Task<> expect_hang_up(Loop& loop, int fd) {
  auto watch = std::move(*Watch::create(loop, fd));
  char c;
  while (read(fd, &c, 1) < 0)
    EXPECT_EQ(co_await watch.readable(loop.now() + milliseconds(2000)), Wait::kReady);
  // The hang-up was delivered once; later waits must not sleep through it.
  EXPECT_EQ(co_await watch.readable(loop.now() + milliseconds(2000)), Wait::kReady);
}

TEST_F(LoopTest, HangUpIsNeverMissed) {
  loop_->post([this] { b_.reset(); });
  run(expect_hang_up(*loop_, a_.get()));
}

Task<> sleep_in_order(Loop& loop, int ms, std::vector<int>* order) {
  co_await loop.sleep_for(milliseconds(ms));
  order->push_back(ms);
}

Task<> run_sleepers(Loop& loop, std::vector<int>* order) {
  TaskGroup group(loop);
  for (const int ms : {30, 10, 50, 20, 40}) group.spawn(sleep_in_order(loop, ms, order));
  co_await group.wait_until_empty(kNever);
}

TEST_F(LoopTest, TimersFireInOrderOfTheirDeadlines) {
  std::vector<int> order;
  run(run_sleepers(*loop_, &order));
  EXPECT_EQ(order, (std::vector{10, 20, 30, 40, 50}));
}

struct Flag {
  bool* flag;
  ~Flag() { *flag = true; }
};
Task<int> hang(Loop& loop, Flag flag) {
  co_await loop.sleep_until(kNever);
  co_return flag.flag == nullptr;
}
Task<int> quick(Loop& loop) {
  co_await loop.sleep_for(milliseconds(1));
  co_return 7;
}
Task<> race(Loop& loop, bool* cancelled) {
  EXPECT_EQ(co_await within(loop, loop.now() + milliseconds(10), hang(loop, Flag{cancelled})),
            std::nullopt);
  EXPECT_TRUE(*cancelled);
  EXPECT_EQ(co_await within(loop, loop.now() + milliseconds(5000), quick(loop)), 7);
}

TEST_F(LoopTest, WithinCancelsTheTaskThatIsTooSlow) {
  bool cancelled = false;
  run(race(*loop_, &cancelled));
}

// Both ends become readable in one round; the first reader destroys the second one's watch.
Task<> destroy_other(Loop& loop, int fd, std::optional<TaskGroup>* other, int* woken) {
  auto watch = std::move(*Watch::create(loop, fd));
  char c;
  while (read(fd, &c, 1) != 1) co_await watch.readable(kNever);
  ++*woken;
  other->reset();
}
Task<> two_readers(Loop& loop, int a, int b, int* woken) {
  std::optional<TaskGroup> first(std::in_place, loop), second(std::in_place, loop);
  first->spawn(destroy_other(loop, a, &second, woken));
  second->spawn(destroy_other(loop, b, &first, woken));
  co_await loop.sleep_for(milliseconds(1));
  EXPECT_EQ(write(a, "x", 1), 1);
  EXPECT_EQ(write(b, "x", 1), 1);
  co_await loop.sleep_for(milliseconds(20));
}

TEST_F(LoopTest, AWatchMayDieWhileItsEventIsStillInTheBatch) {
  int woken = 0;
  run(two_readers(*loop_, a_.get(), b_.get(), &woken));
  EXPECT_EQ(woken, 1);
}

Task<> wait_for(Event& event, TimePoint deadline, int* ready, int* late) {
  (co_await event.wait(deadline) == Wait::kReady ? *ready : *late) += 1;
}
Task<> use_event(Loop& loop, int* ready, int* late) {
  Event event(loop);
  TaskGroup group(loop);
  group.spawn(wait_for(event, kNever, ready, late));
  group.spawn(wait_for(event, kNever, ready, late));
  group.spawn(wait_for(event, loop.now() + milliseconds(5), ready, late));
  co_await loop.sleep_for(milliseconds(15));
  event.set();
  co_await group.wait_until_empty(kNever);
}

TEST_F(LoopTest, EventWakesAllWhoStillWait) {
  int ready = 0, late = 0;
  run(use_event(*loop_, &ready, &late));
  EXPECT_EQ(ready, 2);
  EXPECT_EQ(late, 1);
}

Task<> throws(Loop& loop) {
  co_await loop.sleep_for(milliseconds(1));
  throw std::runtime_error("from a library");
}
Task<> outlive(Loop& loop) {
  TaskGroup group(loop);
  group.spawn(throws(loop));
  EXPECT_EQ(co_await group.wait_until_empty(loop.now() + milliseconds(5000)), Wait::kReady);
}

TEST_F(LoopTest, AnExceptionEndsOnlyItsOwnTask) {
  run(outlive(*loop_));
}

Task<> never_waits(Loop& loop, bool* stop, int* rounds) {
  while (!*stop) {
    ++*rounds;
    co_await loop.next_round();
  }
}
Task<> share_the_loop(Loop& loop, int a, int b, int* rounds) {
  bool stop = false;
  char got = 0;
  TaskGroup group(loop);
  group.spawn(never_waits(loop, &stop, rounds));
  EXPECT_EQ(write(b, "x", 1), 1);
  co_await read_one(loop, a, &got);
  co_await loop.sleep_for(milliseconds(1));
  stop = true;
  co_await group.wait_until_empty(kNever);
}

TEST_F(LoopTest, WorkThatNeverWaitsLetsDescriptorsAndTimersHaveTheirTurn) {
  int rounds = 0;
  run(share_the_loop(*loop_, a_.get(), b_.get(), &rounds));
  EXPECT_GT(rounds, 1);
}

TEST_F(LoopTest, PostFromAnotherThreadRunsOnTheLoop) {
  std::thread::id ran_on;
  std::thread other([&] {
    loop_->post([&] {
      ran_on = std::this_thread::get_id();
      loop_->stop();
    });
  });
  loop_->run();
  other.join();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(LoopTest, DestroyingTheLoopCancelsWhatStillRuns) {
  bool cancelled = false;
  struct Helper {
    static Task<> run(Loop& loop, Flag flag) { co_await hang(loop, Flag{flag.flag}); }
  };
  loop_->spawn(Helper::run(*loop_, Flag{&cancelled}));
  cancelled = false;
  loop_.reset();
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace pons::linux
