#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "conversation_check.h"
#include "pons/base/log.h"
#include "simulation.h"
#include "story.h"

// What holds for every log: of a bad world, of a random one, and of none that could be.

namespace pons::session {
namespace {

class Properties : public testing::Test {
 protected:
  Properties() { configure_log({.level = LogLevel::kError, .descriptor = -1}); }
  ~Properties() override { configure_log(default_log_settings()); }

  static std::vector<std::vector<StoredEvent>> some_logs() {
    std::vector<std::vector<StoredEvent>> logs;
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      for (auto& log : simulate({.seed = seed, .sessions = 2, .fault = 0.08}).logs)
        logs.push_back(std::move(log));
    return logs;
  }
  static StoredEvent read_back(const StoredEvent& stored) {
    return {stored.seq, stored.at_ms,
            read_event(type_of(stored.event), write_body(stored.event)).value()};
  }
};

TEST_F(Properties, FoldingAnyPrefixAndThenTheRestIsFoldingAll) {
  for (const auto& log : some_logs()) {
    const State whole = fold(State{}, log);
    State from_store;
    for (const StoredEvent& stored : log) fold(from_store, read_back(stored));
    EXPECT_EQ(from_store, whole) << "what is read back is folded to the same";
    for (std::size_t cut = 0; cut <= log.size(); cut += 1 + log.size() / 7) {
      const auto middle = log.begin() + static_cast<std::ptrdiff_t>(cut);
      State prefix = fold(State{}, {log.begin(), middle});
      EXPECT_EQ(fold(std::move(prefix), {middle, log.end()}), whole);
    }
  }
}

TEST_F(Properties, DecideIsTotalAndSettlesForEveryPrefix) {
  for (const auto& log : some_logs()) {
    State state;
    for (const StoredEvent& stored : log) {
      fold(state, stored);
      State ahead = state;
      std::vector<StoredEvent> decided;
      settle(ahead, stored.at_ms, decided);
      EXPECT_TRUE(decide(ahead).empty());
      EXPECT_EQ(ahead.head, state.head + static_cast<Seq>(decided.size()));
    }
  }
}

// No such log can be; whoever edits a store must not crash who reads it.
TEST_F(Properties, DecideIsTotalForLogsThatNobodyWrote) {
  std::mt19937_64 random(1);
  const auto logs = some_logs();
  std::vector<Event> all;
  for (const auto& log : logs)
    for (const StoredEvent& stored : log) all.push_back(stored.event);
  for (int round = 0; round < 300; ++round) {
    State state;
    std::vector<StoredEvent> decided;
    for (Seq seq = 1; seq <= 60; ++seq) {
      Event event = all[random() % all.size()];
      // Numbers of other events, so that some of them meet.
      const auto near = [&] { return static_cast<Seq>(random() % 60); };
      if (auto* answered = std::get_if<ModelAnswered>(&event); answered && state.asked)
        answered->asked = state.asked->seq;
      if (auto* ended = std::get_if<ToolEnded>(&event)) ended->call = near();
      if (auto* called = std::get_if<ToolCalled>(&event)) called->block = near() % 4;
      if (auto* failed = std::get_if<ModelFailed>(&event)) failed->asked = near();
      if (auto* created = std::get_if<Created>(&event)) created->agent.calls_per_turn = near() - 5;
      fold(state, {.seq = seq, .at_ms = seq, .event = std::move(event)});
      State ahead = state;
      settle(ahead, 1, decided);
      EXPECT_TRUE(decide(ahead).empty());
    }
  }
}

// A random walk through everything that the world may answer, at any time, in any order.
class Walk {
 public:
  explicit Walk(std::uint64_t seed)
      : random_(seed),
        story_({.model = "m",
                .context_tokens = seed % 3 == 0 ? 500 : 200'000,
                .calls_per_turn = 12,
                .budget_tokens = seed % 5 == 0 ? 3'000 : 0}) {}

  void run() {
    for (int i = 0; i < 60; ++i) {
      const Seq before = story_.state.head;
      step();
      check(before);
    }
  }

 private:
  std::size_t pick(std::size_t below) { return random_() % below; }

  void step() {
    const State& state = story_.state;
    switch (pick(12)) {
      case 0:
        story_.say("m", pick(2) == 0 ? "key" : "");
        return;
      case 1:
        if (pick(3) == 0) story_.add(Interrupted{});
        return;
      case 2:
        story_.add(Resumed{.epoch = 2});
        return;
      case 3:
        story_.add(TimerFired{});
        return;
      case 4:
        if (pick(3) == 0)
          story_.add(AccessAsked{.request = "acc_" + std::to_string(pick(6)), .host = "a.example"});
        return;
      case 5:
        return end_access();
      default:
        break;
    }
    if (state.asked) return answer();
    for (std::size_t i = 0; i < state.calls.size(); ++i)
      if (state.calls[i].is_open() && pick(2) == 0) return end(i);
  }

  void end_access() {
    if (story_.state.access.empty()) return;
    const AccessWait& access = story_.state.access[pick(story_.state.access.size())];
    if (!access.decision)
      story_.add(UserDecision{.call = access.seq, .allowed = pick(2) == 0});
    else
      story_.add(AccessEnded{.request = access.request, .outcome = AccessOutcome::kAllowed});
  }

  void answer() {
    const State& state = story_.state;
    if (pick(5) == 0)
      return void(story_.fail(std::vector{Trouble::kPassing, Trouble::kLasting, Trouble::kBudget,
                                          Trouble::kTooLong}[pick(4)]));
    if (state.asked->purpose == Purpose::kSummary)
      return void(story_.add(ContextSummarised{.asked = state.asked->seq, .summary = "s"}));
    const std::vector<std::pair<std::string, std::string>> tools = {
        {"sandbox_provision", kTask},
        {"sandbox_execute", kRun},
        {"ask_human", R"({"question":"?"})"},
        {"ask_human", "{}"},
        {"spawn_agent", R"({"task":"t"})"},
        {"none", "{}"},
        {"sandbox_execute", "{}"}};
    std::vector<std::pair<std::string, std::string>> calls;
    for (std::size_t i = pick(5); i > 0; --i) calls.push_back(tools[pick(tools.size())]);
    const std::vector<std::string> stops = {"end_turn", "max_tokens", "refusal", "pause_turn", ""};
    if (calls.empty())
      story_.answer(pick(4) == 0 ? "[]" : kHello, stops[pick(5)], {.input = 100});
    else
      story_.call(calls, pick(6) == 0 ? "max_tokens" : "tool_use");
  }

  void end(std::size_t index) {
    const Call& call = story_.state.calls[index];
    if (call.name == "ask_human")
      story_.add(UserAnswer{.call = call.seq, .text = "a"});
    else if (call.name == "sandbox_provision" && pick(3) > 0)
      story_.bind(index, "box" + std::to_string(call.seq), pick(3) == 0);
    else
      story_.end_call(index);
  }

  void check(Seq before) {
    EXPECT_TRUE(decide(story_.state).empty()) << "all of a step is in that step";
    for (const StoredEvent& stored : story_.events) {
      if (stored.seq <= before) continue;
      if (const auto* called = std::get_if<ToolCalled>(&stored.event))
        EXPECT_TRUE(begun_.emplace(called->asked, called->block).second) << "begun twice";
      if (const auto* ended = std::get_if<ToolEnded>(&stored.event))
        EXPECT_TRUE(ended_.insert(ended->call).second) << "ended twice";
      if (const auto* released = std::get_if<SandboxReleased>(&stored.event))
        EXPECT_TRUE(released_.insert(released->sandbox).second) << "released twice";
      if (std::holds_alternative<ModelAsked>(stored.event)) {
        EXPECT_FALSE(is_asked_) << "asked again while it was asked";
        is_asked_ = true;
        if (story_.state.asked && story_.state.asked->seq == stored.seq)
          expect_valid_request(story_.state);
      }
      if (std::holds_alternative<ModelAnswered>(stored.event) ||
          std::holds_alternative<ModelFailed>(stored.event) ||
          std::holds_alternative<ContextSummarised>(stored.event))
        is_asked_ = false;
    }
  }

  std::mt19937_64 random_;
  Story story_;
  std::set<std::pair<Seq, std::int64_t>> begun_;
  std::set<Seq> ended_;
  std::set<std::string> released_;
  bool is_asked_ = false;
};

TEST_F(Properties, NoOrderOfEventsMakesACommandBeRepeated) {
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Walk(seed).run();
  }
}

}  // namespace
}  // namespace pons::session
