// However many call at the same time: what a key may use is what it uses at the most.

#include <set>

#include "gateway_fixture.h"

namespace pons::gateway {
namespace {

class LimitsHoldTest : public GatewayTest {
 protected:
  Task<> call() {
    Answer answer;
    // A socket has room for some that wait; whoever does not fit comes again at once.
    while (answer.status == 0) {
      answer = co_await send(
          socket_of("front"),
          {.method = "POST",
           .target = "/v1/messages",
           .fields = {},
           .body =
               R"({"model":"test","max_tokens":100,"messages":[{"role":"user","content":"hi"}]})"});
      if (answer.status == 0) co_await loop_->sleep_for(std::chrono::milliseconds(5));
    }
    statuses_.insert(answer.status);
  }
  // Whether all have an answer.
  Task<bool> call_at_once(std::size_t calls) {
    statuses_.clear();
    linux::TaskGroup callers(*loop_);
    for (std::size_t i = 0; i < calls; ++i) callers.spawn(call());
    co_return co_await callers.wait_until_empty(loop_->now() + std::chrono::minutes(1)) ==
        linux::Wait::kReady;
  }
  std::multiset<int> statuses_;
};

TEST_F(LimitsHoldTest, AThousandCallsAtOnceUseNoMoreThanTheLimitOfTheirKey) {
  constexpr std::int64_t kLimit = 5'000;
  constexpr std::int64_t kUsedByEach = 140;
  open_script(R"([{"text":"done","delay_ms":5000,"usage":{"input":40,"output":100}}])");
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{
           {.what = budget::What::kTokens, .amount = kLimit, .window = budget::Window::kTotal}}})));
  ASSERT_TRUE(run(call_at_once(1'000)));
  ASSERT_EQ(statuses_.size(), 1'000U);
  const auto answered = static_cast<std::int64_t>(statuses_.count(200));
  EXPECT_GT(answered, 5);
  EXPECT_EQ(statuses_.count(200) + statuses_.count(429), 1'000U);
  const auto used = [&] {
    return book_->used(root, budget::Window::kTotal)[budget::What::kTokens];
  };
  EXPECT_EQ(used(), answered * kUsedByEach);
  EXPECT_LE(used(), kLimit);
  EXPECT_EQ(book_->reserved(root)[budget::What::kTokens], 0) << "nothing is left over";
}

}  // namespace
}  // namespace pons::gateway
