#include "rerun.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "pons/linux/run_task.h"
#include "pons/session/tool_text.h"

namespace pons::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Then command(std::int64_t seq, std::string sandbox, std::string result) {
  Then then{.seq = seq, .tool = "sandbox_execute", .shown = "c", .order = {}, .sandbox = sandbox};
  then.order.command = fmt::format("{}", seq);
  then.outcome = "done";
  then.result = std::move(result);
  return then;
}

// Prints what a test wants, by the command.
class FakeHands final : public session::Hands {
 public:
  explicit FakeHands(linux::Loop& loop) : loop_(loop) {}

  std::map<std::string, std::string> prints;  // nothing: the command cannot be run
  std::string no_template;
  std::string hangs;  // a command
  std::vector<std::string> provisioned, destroyed;

  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override {
    provisioned.push_back(order.sandbox_template);
    if (order.sandbox_template == no_template)
      co_return make_error(ErrorCode::kNotFound, "provision", "there is no such template");
    co_return session::ProvisionReport{};
  }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    if (order.command == hangs) co_await loop_.sleep_for(std::chrono::hours(1));
    const auto found = prints.find(order.command);
    if (found == prints.end())
      co_return make_error(ErrorCode::kUnavailable, "execute", "it went away");
    co_return session::ExecuteReport{.output = found->second, .took_ms = 5};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return {}; }
  Task<Result<void>> stop(std::string, std::string) override { co_return {}; }
  Task<Result<void>> destroy(std::string sandbox) override {
    destroyed.push_back(sandbox);
    co_return {};
  }

 private:
  linux::Loop& loop_;
};

class RerunTest : public testing::Test {
 protected:
  RerunTest() : loop_(std::move(*linux::Loop::create())), hands_(*loop_) {}

  Rerun make() {
    return {*loop_, hands_, commands_, {}, [this](std::string digest) -> Task<Result<std::string>> {
              fetched_.push_back(digest);
              if (recorded_.empty()) co_return make_error(ErrorCode::kNotFound, "read", "gone");
              co_return recorded_;
            }};
  }
  void run(Rerun& rerun) {
    const auto all = [](Rerun& it) -> Task<int> {
      co_await it.run();
      (void)co_await it.clean_up();
      co_return 0;
    };
    linux::run_to_end(*loop_, all(rerun));
  }

  std::unique_ptr<linux::Loop> loop_;
  FakeHands hands_;
  Commands commands_;
  std::string recorded_;
  std::vector<std::string> fetched_;
};

TEST_F(RerunTest, WhatCannotBeRunIsToldOfAndTheOthersAreCompared) {
  commands_.all = {
      command(1, "a", "x\n[exit code 0; 3 ms]"), command(2, "b", "y\n[exit code 0; 3 ms]"),
      command(3, "b", "y\n[exit code 0; 3 ms]"), command(4, "a", "x\n[exit code 0; 3 ms]"),
      command(5, "a", "x\n[exit code 0; 3 ms]")};
  commands_.templates = {{"a", "good"}, {"b", "bad"}};
  hands_.no_template = "bad";
  hands_.prints = {{"1", "x"}, {"5", "z"}};
  Rerun rerun = make();
  run(rerun);
  const auto& all = rerun.comparisons();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_TRUE(all[0].is_same);
  EXPECT_THAT(all[1].error, HasSubstr("there is no such template"));
  EXPECT_THAT(all[2].error, HasSubstr("there is no such template"));
  EXPECT_EQ(all[3].error, "it went away");
  EXPECT_FALSE(all[4].is_same);
  EXPECT_EQ(all[4].diff, "@@ -1,1 +1,1 @@\n-x\n+z\n");
  EXPECT_EQ(all[4].exit_code, 0);
  EXPECT_THAT(hands_.provisioned, ElementsAre("good", "bad")) << "once each";
  EXPECT_EQ(hands_.destroyed.size(), 2U) << "what seemed to fail may be there";
}

TEST_F(RerunTest, OfALongOutputAllIsCompared) {
  const std::string around(40'000, 'a');
  const auto recorded = session::describe({.output = around + "\nthen\n" + around});
  commands_.all = {command(1, "a", recorded.text), command(2, "a", recorded.text)};
  for (Then& then : commands_.all) then.full = recorded.full->digest;
  recorded_ = recorded.full->bytes;
  hands_.prints = {{"1", recorded_}, {"2", around + "\nnow!\n" + around}};
  Rerun rerun = make();
  run(rerun);
  EXPECT_TRUE(rerun.comparisons()[0].is_same);
  EXPECT_FALSE(rerun.comparisons()[1].is_same) << "the texts for the model are the same";
  EXPECT_THAT(rerun.comparisons()[1].diff, HasSubstr("-then\n+now!\n"));
  EXPECT_THAT(fetched_, ElementsAre(recorded.full->digest)) << "only where it is needed";
}

TEST_F(RerunTest, WhatIsNotComparedIsRunAndSkipped) {
  commands_.all = {command(1, "a", "xxx\n[exit code 0; 3 ms]")};
  commands_.all[0].incomparable = "a credential";
  hands_.prints = {{"1", "other"}};
  Rerun rerun = make();
  run(rerun);
  EXPECT_TRUE(rerun.comparisons().empty());
  ASSERT_EQ(rerun.skipped().size(), 1U);
  EXPECT_EQ(rerun.skipped()[0].why, "a credential");
}

TEST_F(RerunTest, WhatIsLeftWhenItIsInterruptedIsSkipped) {
  commands_.all = {command(1, "a", "x\n[exit code 0; 3 ms]"),
                   command(2, "a", "x\n[exit code 0; 3 ms]"),
                   command(3, "b", "x\n[exit code 0; 3 ms]")};
  hands_.prints = {{"1", "x"}, {"2", "x"}, {"3", "x"}};
  hands_.hangs = "2";
  Rerun rerun = make();
  {
    linux::TaskGroup tasks(*loop_);
    tasks.spawn(rerun.run());
  }
  linux::run_to_end(*loop_, rerun.clean_up());
  EXPECT_EQ(rerun.comparisons().size(), 1U);
  ASSERT_EQ(rerun.skipped().size(), 2U);
  EXPECT_EQ(rerun.skipped()[0].seq, 2);
  EXPECT_EQ(hands_.destroyed.size(), 1U);
}

}  // namespace
}  // namespace pons::cli
