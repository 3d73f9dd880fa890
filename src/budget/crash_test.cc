#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "budget_fixture.h"
#include "pons/linux/fd.h"

namespace pons::budget {
namespace {

// A process that begins and settles calls, and tells the id of each one that was settled. It ends
// by being killed.
class BookCrashTest : public BudgetTest {
 protected:
  using CallId = std::array<char, 32>;

  BookCrashTest() {
    // So that files begin, are stored and go away within the life of a process.
    options_.journal_file_bytes = 8192;
    options_.store_interval = std::chrono::milliseconds(3);
    options_.sync_interval = std::chrono::milliseconds(2);
  }

  Task<> make_calls(std::string key, int tell) {
    std::mt19937 random(std::random_device{}());
    for (;;) {
      std::vector<Call> calls;
      for (int i = 0; i < 5; ++i) {
        auto call = begin(key);
        if (call) calls.push_back(std::move(*call));
      }
      if (calls.empty()) {
        co_await loop_->sleep_for(std::chrono::microseconds(200));
        continue;
      }
      for (Call& call : calls) {
        if (random() % 4 != 0) call.sent();
        if (random() % 2 == 0) call.progress({.output = 3});
        if (random() % 3 == 0) co_await loop_->next_round();
        if (random() % 8 == 0) continue;  // dropped
        CallId id{};
        std::memcpy(id.data(), call.id().data(), std::min(call.id().size(), id.size()));
        call.settle({.input = 1, .output = 1}, Outcome::kDone);
        if (::write(tell, id.data(), id.size()) != std::ssize(id)) _exit(1);
      }
      co_await loop_->next_round();
    }
  }

  // A loop that has not run for long would count deadlines from then.
  void open_anew() {
    loop_ = std::move(*linux::Loop::create());
    open();
  }

  [[noreturn]] void live(const std::string& key, int tell) {
    open_anew();
    if (book_ == nullptr) _exit(1);
    for (int i = 0; i < 4; ++i) loop_->spawn(make_calls(key, tell));
    loop_->run();
    _exit(1);
  }

  void live_and_die(const std::string& key, std::chrono::microseconds life) {
    auto pipe = linux::create_pipe();
    ASSERT_TRUE(pipe);
    const pid_t child = fork();
    if (child == 0) live(key, pipe->write_end.get());
    pipe->write_end.reset();
    CallId id{};
    const auto hear = [&] {
      if (::read(pipe->read_end.get(), id.data(), id.size()) != std::ssize(id)) return false;
      told_.insert(id.data());
      return true;
    };
    hear();  // it has begun
    std::thread listener([&] {
      while (hear()) continue;
    });
    std::this_thread::sleep_for(life);
    kill(child, SIGKILL);
    listener.join();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself with " << status;
  }

  std::set<std::string> told_;
};

TEST_F(BookCrashTest, EveryCallIsInTheLedgerAtMostOnceAndEverySettledOneIsAfterFiftyKills) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> life(0, 30'000);
  open();
  const std::string key = add_key({});
  book_.reset();
  store_.reset();
  constexpr int kKills = 50;
  for (int round = 0; round < kKills; ++round) {
    live_and_die(key, std::chrono::microseconds(life(random)));
    if (HasFailure()) return;
  }
  open_anew();
  std::set<std::string> stored;
  for (const store::Row& row : rows("SELECT id FROM model_calls"))
    ASSERT_TRUE(stored.insert(std::get<std::string>(row[0])).second);
  for (const std::string& id : told_) ASSERT_TRUE(stored.contains(id)) << id;
  EXPECT_GE(told_.size(), static_cast<std::size_t>(kKills));

  const std::string sum = "SELECT SUM(cost_nano) FROM ";
  EXPECT_EQ(money(key), number(sum + "model_calls"));
  EXPECT_EQ(money(key), number(sum + "model_usage WHERE node_id = '" + key + "'"));
  EXPECT_EQ(number("SELECT SUM(requests) FROM model_usage WHERE node_id = '" + key + "'"),
            number("SELECT count(*) FROM model_calls"));
  EXPECT_EQ(book_->reserved(key), Amounts{});
}

}  // namespace
}  // namespace pons::budget
