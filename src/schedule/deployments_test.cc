#include "pons/schedule/deployments.h"

#include <gtest/gtest.h>

#include "schedule_fixture.h"

namespace pons::schedule {
namespace {

class DeploymentsTest : public ScheduleTest {
 protected:
  std::string refusal(DeploymentSpec wanted) {
    const auto made = run(deployments_.create("p", std::move(wanted)));
    if (made) return "it was taken";
    EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
    return made.error().message;
  }
};

TEST_F(DeploymentsTest, WhatIsMadeIsFound) {
  DeploymentSpec wanted = spec(daily("0 9 * * 1-5", "Europe/Berlin"));
  wanted.description = "each morning";
  wanted.resources = R"([{"type":"file","file_id":"file_1"}])";
  wanted.vault_ids = R"(["vlt_1"])";
  wanted.budget = R"({"type":"limit"})";
  wanted.metadata = R"({"team":"a"})";
  wanted.schedule->missed = Missed::kRunOnce;
  wanted.schedule->late_seconds = 120;
  const auto made = make(wanted);
  EXPECT_TRUE(made.id.starts_with("depl_"));
  const auto found = find(made.id);
  EXPECT_EQ(found.spec, wanted);
  EXPECT_EQ(found.project, "p");
  EXPECT_EQ(found.paused, std::nullopt);
  EXPECT_EQ(found.created_ms, to_ms(utc(2026, 11, 16, 8, 30)));
  EXPECT_EQ(found.upcoming_ms,
            (std::vector{to_ms(utc(2026, 11, 17, 8)), to_ms(utc(2026, 11, 18, 8)),
                         to_ms(utc(2026, 11, 19, 8)), to_ms(utc(2026, 11, 20, 8)),
                         to_ms(utc(2026, 11, 23, 8))}));
}

TEST_F(DeploymentsTest, AnotherProjectSeesNothingOfIt) {
  const auto made = make(spec(daily()));
  EXPECT_EQ(run(deployments_.find("q", made.id)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(deployments_.update("q", made.id, {.name = "mine"})).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(run(deployments_.pause("q", made.id)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(deployments_.archive("q", made.id)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(run(deployments_.list({.project = "q"}))->items.empty());
  const auto one = process();
  EXPECT_EQ(run(one->scheduler.run_now("q", made.id)).error().code, ErrorCode::kNotFound);
  const auto own = run(one->scheduler.run_now("p", made.id));
  ASSERT_TRUE(own);
  EXPECT_EQ(run(deployments_.find_run("q", own->id)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(run(deployments_.list_runs({.project = "q"}))->items.empty());
  EXPECT_TRUE(run(deployments_.list_misses("q", made.id))->empty());
  EXPECT_EQ(run(deployments_.create("nobody", spec())).error().code, ErrorCode::kNotFound);
}

TEST_F(DeploymentsTest, RefusalsNameTheField) {
  const auto with = [](auto change) {
    DeploymentSpec wanted = spec();
    change(wanted);
    return wanted;
  };
  const auto begins = [&](std::string_view field, auto change) {
    const std::string message = refusal(with(change));
    EXPECT_TRUE(message.starts_with(field)) << message;
  };
  begins("name", [](auto& s) { s.name = ""; });
  begins("name", [](auto& s) { s.name = std::string(1'025, 'a'); });
  begins("name", [](auto& s) { s.name = "two\nlines"; });
  begins("name", [](auto& s) { s.name = "\xff"; });
  begins("description", [](auto& s) { s.description = std::string(1 << 20, 'a'); });
  begins("description", [](auto& s) { s.description = std::string(3, '\0'); });
  begins("agent", [](auto& s) { s.agent = "agent_1"; });
  begins("agent", [](auto& s) { s.agent = R"({"id":"agent_1"})"; });
  begins("agent", [](auto& s) { s.agent = R"({"id":"../x","version":1})"; });
  begins("agent", [](auto& s) { s.agent = "[]"; });
  begins("environment_id", [](auto& s) { s.environment_id = ""; });
  begins("environment_id", [](auto& s) { s.environment_id = "a b"; });
  begins("initial_events", [](auto& s) { s.initial_events = "[]"; });
  begins("initial_events", [](auto& s) { s.initial_events = "{}"; });
  begins("initial_events", [](auto& s) { s.initial_events = R"([{"type":"user.interrupt"}])"; });
  begins("initial_events", [](auto& s) { s.initial_events = "[1]"; });
  begins("initial_events", [](auto& s) { s.initial_events = std::string(1 << 20, '['); });
  begins("initial_events", [](auto& s) {
    s.initial_events = "[";
    for (int i = 0; i < 51; ++i)
      s.initial_events += std::string(i ? "," : "") + R"({"type":"user.message"})";
    s.initial_events += "]";
  });
  begins("resources", [](auto& s) { s.resources = "[1]"; });
  begins("resources", [](auto& s) { s.resources = "null"; });
  begins("vault_ids", [](auto& s) { s.vault_ids = R"(["a/b"])"; });
  begins("vault_ids", [](auto& s) { s.vault_ids = R"([{}])"; });
  begins("budget", [](auto& s) { s.budget = "12"; });
  begins("metadata", [](auto& s) { s.metadata = R"({"a":1})"; });
  begins("metadata", [](auto& s) { s.metadata = "[]"; });
  begins("schedule.expression", [](auto& s) { s.schedule = daily("@daily"); });
  begins("schedule.expression", [](auto& s) { s.schedule = daily("0 0 31 2 *"); });
  begins("schedule.timezone", [](auto& s) { s.schedule = daily("0 9 * * *", "Mars/Olympus"); });
  begins("schedule.timezone", [](auto& s) { s.schedule = daily("0 9 * * *", "../etc/passwd"); });
  begins("schedule.timezone", [](auto& s) { s.schedule = daily("0 9 * * *", ""); });
  begins("schedule.late_seconds", [](auto& s) {
    s.schedule = daily();
    s.schedule->late_seconds = 0;
  });
}

TEST_F(DeploymentsTest, AChangeIsOfWhatItNames) {
  const auto made = make(spec(daily()));
  clock_.pass(std::chrono::minutes(1));
  auto changed = run(deployments_.update("p", made.id, {.name = "other", .description = "text"}));
  ASSERT_TRUE(changed) << changed.error().describe();
  EXPECT_EQ(changed->spec.name, "other");
  EXPECT_EQ(changed->spec.description, "text");
  EXPECT_EQ(changed->spec.schedule, made.spec.schedule);
  EXPECT_EQ(changed->updated_ms, made.updated_ms + 60'000);
  changed = run(deployments_.update(
      "p", made.id,
      {.description = std::optional<std::string>(), .schedule = std::optional<Schedule>()}));
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->spec.description, std::nullopt);
  EXPECT_EQ(changed->spec.schedule, std::nullopt);
  EXPECT_TRUE(changed->upcoming_ms.empty());
  EXPECT_EQ(run(deployments_.update("p", made.id, {.vault_ids = "{}"})).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(find(made.id).spec.name, "other");
}

TEST_F(DeploymentsTest, ChangesAtTheSameTimeAllCount) {
  const auto made = make(spec());
  const auto both = [](Deployments& all, linux::Loop& loop, std::string id) -> Task<bool> {
    linux::TaskGroup group(loop);
    const auto change = [](Deployments& of, std::string of_id, DeploymentChange what) -> Task<> {
      EXPECT_TRUE(co_await of.update("p", std::move(of_id), std::move(what)));
    };
    group.spawn(change(all, id, {.name = "other"}));
    group.spawn(change(all, id, {.metadata = R"({"a":"b"})"}));
    group.spawn(change(all, id, {.schedule = daily()}));
    co_await group.wait_until_empty(kNever);
    co_return true;
  };
  run(both(deployments_, *loop_, made.id));
  const auto found = find(made.id);
  EXPECT_EQ(found.spec.name, "other");
  EXPECT_EQ(found.spec.metadata, R"({"a":"b"})");
  EXPECT_EQ(found.spec.schedule, daily());
}

TEST_F(DeploymentsTest, PausingIsReversibleAndArchivingIsNot) {
  const auto made = make(spec(daily()));
  EXPECT_EQ(run(deployments_.pause("p", made.id))->paused, kPausedByHand);
  EXPECT_EQ(run(deployments_.pause("p", made.id))->paused, kPausedByHand);
  EXPECT_EQ(find(made.id).upcoming_ms.size(), 5U);
  EXPECT_EQ(run(deployments_.unpause("p", made.id))->paused, std::nullopt);
  EXPECT_EQ(run(deployments_.unpause("p", made.id))->paused, std::nullopt);
  run(deployments_.pause("p", made.id)).value();
  const auto archived = run(deployments_.archive("p", made.id));
  ASSERT_TRUE(archived);
  EXPECT_TRUE(archived->archived_ms);
  EXPECT_EQ(archived->paused, std::nullopt);
  EXPECT_TRUE(archived->upcoming_ms.empty());
  EXPECT_TRUE(find(made.id).spec.schedule);
  clock_.pass(std::chrono::minutes(1));
  EXPECT_EQ(run(deployments_.archive("p", made.id))->archived_ms, archived->archived_ms);
  for (const auto& refused :
       {run(deployments_.pause("p", made.id)), run(deployments_.unpause("p", made.id)),
        run(deployments_.update("p", made.id, {.name = "other"}))})
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  const auto one = process();
  EXPECT_EQ(run(one->scheduler.run_now("p", made.id)).error().code, ErrorCode::kInvalid);
}

TEST_F(DeploymentsTest, ListsAreFilteredAndPaged) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) {
    DeploymentSpec wanted = spec();
    if (i == 3) wanted.agent = R"({"type":"agent","id":"agent_2","version":1})";
    ids.push_back(make(wanted).id);
    clock_.pass(std::chrono::seconds(i == 1 ? 0 : 1));  // two are made at the same moment
  }
  const auto list = [&](DeploymentQuery query) {
    query.project = "p";
    auto page = run(deployments_.list(query));
    EXPECT_TRUE(page) << page.error().describe();
    return *page;
  };
  std::set<std::string> seen;
  std::string page;
  for (int i = 0; i < 3; ++i) {
    const auto some = list({.limit = 2, .page = page});
    EXPECT_EQ(some.items.size(), i < 2 ? 2U : 1U);
    for (const auto& one : some.items) EXPECT_TRUE(seen.insert(one.id).second);
    page = some.next;
    EXPECT_EQ(page.empty(), i == 2);
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(list({.limit = 5}).next, "");
  EXPECT_EQ(list({}).items.front().id, ids.back());
  ASSERT_EQ(list({.agent_id = "agent_2"}).items.size(), 1U);
  EXPECT_EQ(list({.agent_id = "agent_2"}).items.front().id, ids[3]);
  const auto first_ms = to_ms(utc(2026, 11, 16, 8, 30));
  EXPECT_EQ(list({.created = {.from_ms = first_ms + 1'000}}).items.size(), 4U);
  EXPECT_EQ(list({.created = {.to_ms = first_ms + 1'000}}).items.size(), 3U);
  run(deployments_.archive("p", ids[0])).value();
  run(deployments_.pause("p", ids[1])).value();
  EXPECT_EQ(list({}).items.size(), 4U);
  EXPECT_EQ(list({.include_archived = true}).items.size(), 5U);
  EXPECT_EQ(list({.status = DeploymentQuery::Status::kPaused}).items.size(), 1U);
  EXPECT_EQ(list({.status = DeploymentQuery::Status::kActive}).items.size(), 3U);
}

TEST_F(DeploymentsTest, APageOfAnotherQuestionIsRefused) {
  make(spec());
  make(spec());
  const auto page = run(deployments_.list({.project = "p", .limit = 1}))->next;
  ASSERT_FALSE(page.empty());
  for (const DeploymentQuery& query :
       {DeploymentQuery{.project = "q", .page = page},
        DeploymentQuery{.project = "p", .agent_id = "agent_1", .page = page},
        DeploymentQuery{.project = "p", .include_archived = true, .page = page},
        DeploymentQuery{.project = "p", .page = "x"},
        DeploymentQuery{.project = "p", .page = "AAAA"},
        DeploymentQuery{.project = "p", .page = std::string(1 << 20, 'A')},
        DeploymentQuery{.project = "p", .limit = 0},
        DeploymentQuery{.project = "p", .limit = 1'001},
        DeploymentQuery{
            .project = "p", .include_archived = true, .status = DeploymentQuery::Status::kActive}})
    EXPECT_EQ(run(deployments_.list(query)).error().code, ErrorCode::kInvalid);
}

TEST_F(DeploymentsTest, RunsAreFilteredAndPaged) {
  const auto one = process();
  const auto scheduled = make(spec(daily("* * * * *")));
  const auto other = make(spec());
  one->starter.answer = [](const RunOrder& order) -> FakeStarter::Outcome {
    if (!order.run.scheduled_ms) return order.session;
    return RunError{.type = "session_rate_limited_error", .message = "slower"};
  };
  clock_.pass(std::chrono::seconds(10));  // a tick is started within six seconds
  for (int i = 0; i < 3; ++i) {
    clock_.pass(std::chrono::minutes(1));
    pass(*one);
    EXPECT_TRUE(run(one->scheduler.run_now("p", other.id)));
  }
  const auto count = [&](RunQuery query) {
    query.project = "p";
    return run(deployments_.list_runs(query))->items.size();
  };
  EXPECT_EQ(count({}), 6U);
  EXPECT_EQ(count({.deployment = other.id}), 3U);
  EXPECT_EQ(count({.has_error = true}), 3U);
  EXPECT_EQ(count({.has_error = false}), 3U);
  EXPECT_EQ(count({.trigger = RunQuery::Trigger::kManual}), 3U);
  EXPECT_EQ(count({.deployment = other.id, .trigger = RunQuery::Trigger::kSchedule}), 0U);
  EXPECT_EQ(count({.created = {.from_ms = to_ms(utc(2026, 11, 16, 8, 33))}}), 2U);
  const auto first = *run(deployments_.list_runs({.project = "p", .limit = 4}));
  const auto second =
      *run(deployments_.list_runs({.project = "p", .limit = 4, .page = first.next}));
  EXPECT_EQ(first.items.size() + second.items.size(), 6U);
  EXPECT_EQ(second.next, "");
  const auto found = run(deployments_.find_run("p", first.items.front().id));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->deployment, first.items.front().deployment);
  EXPECT_EQ(found->session.empty(), found->error.has_value());
  EXPECT_EQ(found->agent, spec().agent);
}

TEST_F(DeploymentsTest, LongOnesAreListedInShorterPages) {
  DeploymentSpec wanted = spec();
  wanted.description = std::string(5'000, 'a');
  for (int i = 0; i < 10; ++i) make(wanted);
  const auto narrow = store::SqliteStore::open(
      *loop_, {.path = directory_ + "/pons.db", .shown = "", .limits = {.row_bytes = 20'000}});
  ASSERT_TRUE(narrow);
  Deployments deployments(**narrow, clock_, zones_);
  std::size_t seen = 0;
  std::string page;
  do {
    const auto some = run(deployments.list({.project = "p", .limit = 1'000, .page = page}));
    ASSERT_TRUE(some) << some.error().describe();
    seen += some->items.size();
    page = some->next;
  } while (!page.empty());
  EXPECT_EQ(seen, 10U);
}

}  // namespace
}  // namespace pons::schedule
