#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/tools.h"
#include "story.h"
#include "thread_watch.h"

namespace pons::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

AgentSpec helper() {
  return {.name = "helper",
          .model = "m",
          .tools = {"bash"},
          .asks = {"bash"},
          .description = "knows shells"};
}
AgentSpec coordinator() {
  return {.model = "m",
          .tools = {std::string(kSpawnAgent)},
          .has_threads = true,
          .members = Members({helper()})};
}
std::pair<std::string, std::string> task(const std::string& agent = "helper") {
  return {std::string(kSpawnAgent), R"({"task":"t","agent":")" + agent + "\"}"};
}

TEST(Threads, AnAgentIsToldWhomItMayGiveTasksTo) {
  const std::string tools = write_tools(coordinator());
  EXPECT_THAT(tools, HasSubstr(R"("enum":["helper"])"));
  EXPECT_THAT(tools, HasSubstr("helper: knows shells"));
  EXPECT_THAT(tools, HasSubstr(R"("required":["task","agent"])"));
}

TEST(Threads, TasksForAnybodyElseAreRefused) {
  Story story(coordinator());
  story.say("go");
  story.call({task("stranger"), {std::string(kSpawnAgent), R"({"task":"t"})"}, task()});
  const auto& calls = story.state.calls;
  EXPECT_TRUE(calls[0].ended && calls[0].is_error);
  EXPECT_TRUE(calls[1].ended && calls[1].is_error) << "it may not describe one itself";
  EXPECT_TRUE(calls[2].is_open());
  EXPECT_FALSE(read_task({.has_threads = true, .makes_members = true}, R"({"task":"t"})"));
  EXPECT_TRUE(
      read_task({.has_threads = true, .makes_members = true}, R"({"task":"t","system":"you"})"));
}

TEST(Threads, NoMoreThanTwentyFiveWorkAtATime) {
  Story story(coordinator());
  story.say("go");
  story.call(std::vector(27, task()));
  const auto open = std::ranges::count_if(story.state.calls, &Call::is_open);
  EXPECT_EQ(open, 25);
  EXPECT_THAT(story.state.calls.back().result, HasSubstr("25 agents"));
}

TEST(Threads, ASessionWhoseAgentsAllWaitForPeopleWaitsButIsNotAtRest) {
  Story story(coordinator());
  story.say("go");
  story.call({task(), task()});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
  const Seq first = story.state.calls[0].seq;
  const Seq second = story.state.calls[1].seq;
  const auto wait = [&](Seq call, Seq seen) {
    story.add(
        ThreadChanged{.call = call, .seen = seen, .status = ThreadStatus::kWaits, .waits = {7}});
  };
  wait(first, 9);
  EXPECT_EQ(status_of(story.state), Status::kRunning) << "the other one works";
  wait(second, 9);
  EXPECT_EQ(status_of(story.state), Status::kWaitsInThread);
  EXPECT_FALSE(is_at_rest(Status::kWaitsInThread)) << "it has to hear of the answer";
  story.add(ThreadChanged{.call = second, .seen = 8, .status = ThreadStatus::kRunning});
  EXPECT_EQ(status_of(story.state), Status::kWaitsInThread) << "what is old changes nothing";
  story.add(ThreadChanged{.call = second, .seen = 10, .status = ThreadStatus::kRunning});
  EXPECT_EQ(status_of(story.state), Status::kRunning);
}

TEST(Threads, WhoWatchesAnAgentTellsOfItsQuestionsOnce) {
  Story agent(helper());
  agent.say("t");
  agent.call({{"bash", R"({"command":"ls"})"}, {"nothing", "{}"}});
  ThreadWatch watch(4, {});
  const auto waiting = watch.take(agent.events);
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->status, ThreadStatus::kWaits);
  EXPECT_THAT(waiting->waits, ElementsAre(agent.state.calls[0].seq));
  const Json posted = parse_json(waiting->posted).value();
  ASSERT_EQ(posted.size(), 1U) << "a call that was refused asks nobody";
  EXPECT_EQ(posted[0]["name"], "bash");
  EXPECT_EQ(posted[0]["waits_for"], "decision");

  ThreadWatch again(4, *waiting);  // in the next process
  EXPECT_FALSE(again.take(agent.events));
  const std::size_t before = agent.events.size();
  agent.add(UserDecision{.call = agent.state.calls[0].seq, .allowed = true});
  const auto begin = agent.events.begin() + static_cast<std::ptrdiff_t>(before);
  const auto going_on = again.take({begin, agent.events.end()});
  ASSERT_TRUE(going_on);
  EXPECT_EQ(going_on->status, ThreadStatus::kRunning);
  EXPECT_THAT(going_on->waits, IsEmpty());
  EXPECT_THAT(going_on->posted, HasSubstr("user.decision"));
}

TEST(Threads, AToolOfAServerIsAskedForByItsOwnName) {
  AgentSpec agent{.name = "helper", .model = "m"};
  agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
  Story story(agent);
  story.say("t");
  story.add(
      Equipped{.asked = *story.state.equipping,
               .tools = {{.server = "far", .name = "a.b", .alias = "far__a_b", .asks = true}}});
  story.call({{"far__a_b", "{}"}});
  const auto waiting = ThreadWatch(4, {}).take(story.events);
  ASSERT_TRUE(waiting);
  const Json posted = parse_json(waiting->posted).value();
  ASSERT_EQ(posted.size(), 1U);
  EXPECT_EQ(posted[0]["name"], "a.b");
  EXPECT_EQ(posted[0]["server"], "far");
}

}  // namespace
}  // namespace pons::session
