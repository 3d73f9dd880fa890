#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "feed.h"
#include "pons/base/log.h"
#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/session/fold.h"
#include "pons/session/sessions.h"
#include "pons/session/tools.h"
#include "simulated_extras.h"
#include "simulated_hands.h"
#include "simulated_log.h"
#include "story.h"

// For tests: the sessions of a process, in a world where nothing fails unless the test wants it.

namespace pons::session {

// Says what the test has written down, one after the other.
class ScriptedModel final : public Model {
 public:
  explicit ScriptedModel(linux::Loop& loop) : loop_(loop) {}
  std::vector<std::variant<Answer, NoAnswer>> script;
  std::vector<std::string> requests;
  std::vector<std::string> questions;  // their ids
  std::map<std::string, Usage> bills;  // what they came to, by id
  Usage bill;                          // of those that are silent
  int unknown_bills = 0;               // that are not known yet
  std::size_t next = 0;
  std::vector<std::string> forgotten;
  bool is_silent = false;

  void forget(const std::string& session) override { forgotten.push_back(session); }

  void text(std::string words) {
    script.emplace_back(Answer{.content = R"([{"type":"text","text":")" + words + "\"}]",
                               .stop_reason = "end_turn"});
  }
  void call(const std::string& name, const std::string& input, Usage usage = {}) {
    script.emplace_back(Answer{.content = R"([{"type":"tool_use","id":"t","name":")" + name +
                                          R"(","input":)" + input + "}]",
                               .stop_reason = "tool_use",
                               .usage = usage});
  }

  Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) override {
    requests.push_back(question.request);
    questions.push_back(question.id);
    if (is_silent) bills[question.id] = bill;
    if (is_silent) co_await loop_.sleep_for(std::chrono::hours(1'000));
    co_await loop_.sleep_for(std::chrono::milliseconds(1));
    if (next >= script.size()) co_return NoAnswer{.trouble = Trouble::kLasting, .message = "end"};
    auto answer = script[next++];
    if (const auto* said = std::get_if<Answer>(&answer))
      if (said->content.find("sandbox_provision") != std::string::npos)
        listener.on_tool(0, kProvision);
    co_return answer;
  }
  Task<Result<Usage>> end_question(std::string id) override {
    co_await loop_.sleep_for(std::chrono::milliseconds(1));
    if (unknown_bills > 0 && unknown_bills--)
      co_return make_error(ErrorCode::kConflict, "end question", "it is under way");
    co_return bills[id];
  }

 private:
  linux::Loop& loop_;
};

class SessionsTest : public testing::Test {
 protected:
  SessionsTest()
      : loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        clock_(*loop_),
        fate_(*loop_, clock_, 1, 0),
        log_(tables_, fate_, clock_, "one"),
        model_(*loop_),
        hands_(*loop_, boxes_, fate_),
        boundary_(fate_),
        notes_(notebook_, fate_),
        servers_(server_book_, fate_),
        extras_{.notes = &notes_, .servers = &servers_},
        sessions_(*loop_, clock_, log_, model_, hands_, boundary_, extras_) {
    configure_log({.level = LogLevel::kError, .descriptor = -1});
  }
  ~SessionsTest() override { configure_log(default_log_settings()); }

  template <class T>
  T run(Task<T> task) {
    return linux::run_to_end(*loop_, std::move(task));
  }
  Task<bool> sleep(Duration time) {
    co_await loop_->sleep_for(time);
    co_return true;
  }
  void pass(Duration time) { (void)run(sleep(time)); }
  // Begins a session and lets it work for a while.
  void begin(AgentSpec agent = {.model = "m"}) {
    const auto made = run(sessions_.create(
        {.id = "s", .project = "p", .agent = std::move(agent), .message = message_of("hi", "")}));
    ASSERT_TRUE(made) << made.error().describe();
    pass(std::chrono::seconds(10));
  }
  // The session goes on from there, in a process that has not begun what is under way.
  void take_up(const Story& story, Duration time = std::chrono::minutes(2)) {
    const auto made =
        run(sessions_.create({.id = "s", .project = "p", .agent = story.state.agent}));
    ASSERT_TRUE(made);
    auto& tables = tables_.sessions.at("s");
    tables.events = story.events;
    tables.summary.head = story.state.head;
    tables.summary.status = status_of(story.state);
    SimulatedLog log(tables_, fate_, clock_, "one");
    Sessions next(*loop_, clock_, log, model_, hands_, boundary_, extras_);
    model_.text("I see.");
    linux::TaskGroup group(*loop_);
    group.spawn(next.keep_going());
    pass(time);
    group.cancel_all();
  }
  const Tables::Stored& stored(const std::string& id = "s") { return tables_.sessions.at(id); }
  template <class T>
  std::vector<T> all(const std::string& id = "s") {
    std::vector<T> found;
    for (const StoredEvent& event : stored(id).events)
      if (const auto* one = std::get_if<T>(&event.event)) found.push_back(*one);
    return found;
  }

  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  JumpingClock clock_;
  Fate fate_;
  Tables tables_;
  Boxes boxes_;
  SimulatedLog log_;
  ScriptedModel model_;
  SimulatedHands hands_;
  SimulatedBoundary boundary_;
  Notebook notebook_;
  ServerBook server_book_;
  SimulatedNotes notes_;
  SimulatedServers servers_;
  Extras extras_;
  Sessions sessions_;
};

}  // namespace pons::session
