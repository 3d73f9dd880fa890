// Deployments as a client of the API meets them.

#include "api_fixture.h"
#include "run_starter.h"

namespace pons::managed {
namespace {

class DeploymentRoutes : public ApiTest {
 protected:
  Json wish() {
    return {{"name", "report"},
            {"agent", agent_.at("id")},
            {"environment_id", environment_.at("id")},
            {"initial_events", Json::parse(R"([{"type":"user.message","content":
                [{"type":"text","text":"go"}]}])")},
            {"schedule",
             {{"type", "cron"}, {"expression", "0 9 * * 1-5"}, {"timezone", "Europe/Berlin"}}}};
  }
  std::string make() { return ask("POST", "/v1/deployments", wish()).json.at("id"); }
  // What the error says when the deployment is another in one member.
  Answer refused(const char* member, Json value) {
    Json body = wish();
    body[member] = std::move(value);
    return ask("POST", "/v1/deployments", body);
  }
};

TEST_F(DeploymentRoutes, ADeploymentIsShownWithEveryMember) {
  const auto made = ask("POST", "/v1/deployments", wish());
  ASSERT_EQ(made.status, 200) << made.json.dump();
  const Json& shown = made.json;
  EXPECT_EQ(shown.at("type"), "deployment");
  EXPECT_EQ(shown.at("agent"), (Json{{"type", "agent"}, {"id", agent_.at("id")}, {"version", 1}}));
  EXPECT_EQ(shown.at("status"), "active");
  EXPECT_EQ(shown.at("schedule").at("upcoming_runs_at").size(), 5U);
  EXPECT_EQ(shown.at("schedule").at("missed_runs"), "skip");
  for (const char* member : {"description", "paused_reason", "budget", "archived_at"})
    EXPECT_TRUE(shown.at(member).is_null()) << member;
  EXPECT_TRUE(shown.at("schedule").at("last_run_at").is_null());
  const std::string path = "/v1/deployments/" + shown.at("id").get<std::string>();
  EXPECT_EQ(ask("GET", path).json.at("initial_events"), wish().at("initial_events"));
  EXPECT_EQ(ask("GET", path + "?project=q").status, 404);
  EXPECT_EQ(ask("GET", "/v1/deployments/depl_none").status, 404);
}

TEST_F(DeploymentRoutes, RefusalsNameTheMember) {
  const auto says = [](const Answer& answer, const char* text) {
    EXPECT_EQ(answer.status, 400) << answer.json.dump();
    EXPECT_EQ(answer.json.at("error").at("type"), "invalid_request_error");
    const std::string message = answer.json.at("error").at("message");
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says(refused("colour", "red"), "colour");
  says(refused("name", ""), "name");
  says(refused("initial_events", Json::array()), "initial_events");
  says(refused("initial_events", Json::parse(R"([{"type":"user.interrupt"}])")), "initial_events");
  says(refused("vault_ids", "vlt_ours"), "vault_ids");
  says(refused("vault_ids", {"vlt_old"}), "archived");
  says(refused("resources", Json::parse(R"([{"type":"file","file_id":"f","mount_path":"x"}])")),
       "/resources/0/mount_path");
  says(refused("resources", Json::parse(R"([{"type":"github_repository"}])")), "url");
  says(refused("schedule", {{"type", "cron"}, {"expression", "@daily"}, {"timezone", "UTC"}}),
       "names of schedules");
  says(refused("schedule", {{"type", "cron"}, {"expression", "0 0 * * *"}, {"timezone", "../x"}}),
       "time zone");
  says(refused("schedule", {{"type", "cron"}, {"expression", "0 0 * * *"}}), "timezone");
  says(refused("agent", {{"type", "agent_with_overrides"}, {"id", agent_.at("id")}}), "agent");
  EXPECT_EQ(refused("agent", "agent_none").status, 404);
  const auto nowhere = refused("environment_id", "env_none");
  EXPECT_EQ(nowhere.json.at("error").at("details").at("error_code"), "environment_not_found");
}

TEST_F(DeploymentRoutes, WhatItsSessionsAreToHaveHasToBeThere) {
  const auto code = [](const Answer& answer) {
    return answer.json.at("error").at("details").at("error_code");
  };
  EXPECT_EQ(code(refused("vault_ids", {"vlt_none"})), "vault_not_found");
  EXPECT_EQ(
      code(refused("resources", Json::parse(R"([{"type":"memory_store","memory_store_id":"m"}])"))),
      "session_resource_not_found");
  const auto file = refused("resources", Json::parse(R"([{"type":"file","file_id":"file_none"}])"));
  EXPECT_EQ(file.status, 404);
  EXPECT_EQ(code(file), "file_not_found");
  EXPECT_EQ(refused("vault_ids", {"vlt_silent"}).status, 503);

  Json body = wish();
  body["vault_ids"] = {"vlt_ours"};
  const auto made = ask("POST", "/v1/deployments", body);
  ASSERT_EQ(made.status, 200) << made.json.dump();
  EXPECT_EQ(made.json.at("vault_ids"), Json{"vlt_ours"});
  const std::string path = "/v1/deployments/" + made.json.at("id").get<std::string>();
  const auto run = ask("POST", path + "/run");
  const std::string session = run.json.at("session_id");
  EXPECT_EQ(ask("GET", "/v1/sessions/" + session).json.at("vault_ids"), Json{"vlt_ours"});
  EXPECT_EQ(ask("POST", path, {{"vault_ids", {"vlt_none"}}}).status, 404);
  const auto cleared = ask("POST", path, {{"vault_ids", nullptr}});
  EXPECT_EQ(cleared.json.at("vault_ids"), Json::array());
}

TEST_F(DeploymentRoutes, ARunSaysWhatIsNoLongerThere) {
  const auto called = [](const char* code) {
    Refusal refusal = bad_request("it is gone");
    refusal.code = code;
    return run_error_of(refusal).type;
  };
  EXPECT_EQ(called("vault_archived"), "vault_archived_error");
  EXPECT_EQ(called("file_not_found"), "file_not_found_error");
  EXPECT_EQ(called("session_resource_not_found"), "session_resource_not_found_error");
  EXPECT_EQ(called("budget_create_only"), "session_creation_rejected_error");
}

TEST_F(DeploymentRoutes, ChangesPausesAndArchives) {
  const std::string path = "/v1/deployments/" + make();
  auto changed = ask("POST", path, {{"metadata", {{"a", "b"}}}, {"schedule", nullptr}});
  ASSERT_EQ(changed.status, 200) << changed.json.dump();
  EXPECT_TRUE(changed.json.at("schedule").is_null());
  EXPECT_EQ(changed.json.at("metadata"), (Json{{"a", "b"}}));
  EXPECT_EQ(changed.json.at("name"), "report");
  changed = ask("POST", path + "/pause");
  EXPECT_EQ(changed.json.at("status"), "paused");
  EXPECT_EQ(changed.json.at("paused_reason"), (Json{{"type", "manual"}}));
  EXPECT_EQ(ask("GET", "/v1/deployments?status=paused").json.at("data").size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/deployments?status=active").json.at("data").size(), 0U);
  EXPECT_EQ(ask("POST", path + "/unpause").json.at("status"), "active");
  changed = ask("POST", path + "/archive");
  EXPECT_EQ(changed.json.at("status"), "active");
  EXPECT_FALSE(changed.json.at("archived_at").is_null());
  EXPECT_EQ(ask("POST", path + "/run").status, 400);
  EXPECT_EQ(ask("GET", "/v1/deployments").json.at("data").size(), 0U);
  EXPECT_EQ(ask("GET", "/v1/deployments?include_archived=true").json.at("data").size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/deployments?status=active&include_archived=true").status, 400);
}

TEST_F(DeploymentRoutes, ARunMakesASessionOfTheDeployment) {
  const std::string id = make();
  const auto run = ask("POST", "/v1/deployments/" + id + "/run");
  ASSERT_EQ(run.status, 200) << run.json.dump();
  EXPECT_EQ(run.json.at("trigger_context"), (Json{{"type", "manual"}}));
  EXPECT_TRUE(run.json.at("error").is_null());
  const std::string session = run.json.at("session_id");
  EXPECT_TRUE(session.starts_with("sesn_"));
  const auto made = ask("GET", "/v1/sessions/" + session);
  ASSERT_EQ(made.status, 200);
  EXPECT_EQ(made.json.at("deployment_id"), id);
  const auto runs = ask("GET", "/v1/deployment_runs?deployment_id=" + id + "&has_error=false");
  ASSERT_EQ(runs.json.at("data").size(), 1U);
  EXPECT_TRUE(runs.json.at("next_page").is_null());
  EXPECT_EQ(runs.json.at("data")[0], run.json);
  const std::string run_id = run.json.at("id");
  EXPECT_EQ(ask("GET", "/v1/deployment_runs/" + run_id).json, run.json);
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?trigger_type=schedule").json.at("data").size(), 0U);
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?trigger_type=x").status, 400);
}

TEST_F(DeploymentRoutes, WhyThereIsNoSessionIsInTheRun) {
  const std::string id = make();
  ask("POST", "/v1/environments/" + environment_.at("id").get<std::string>() + "/archive");
  auto run = ask("POST", "/v1/deployments/" + id + "/run");
  ASSERT_EQ(run.status, 200);
  EXPECT_TRUE(run.json.at("session_id").is_null());
  EXPECT_EQ(run.json.at("error").at("type"), "environment_archived_error");
  ask("POST", "/v1/agents/" + agent_.at("id").get<std::string>() + "/archive");
  run = ask("POST", "/v1/deployments/" + id + "/run");
  EXPECT_EQ(run.json.at("error").at("type"), "agent_archived_error");
  EXPECT_EQ(ask("GET", "/v1/deployment_runs?has_error=true").json.at("data").size(), 2U);
  EXPECT_EQ(ask("GET", "/v1/deployments/" + id).json.at("status"), "active");
}

// A process that died may have got anywhere.
TEST_F(DeploymentRoutes, ASessionThatIsAskedForAgainIsTheSameWithOneMessage) {
  const auto shown = ask("POST", "/v1/deployments", wish()).json;
  Objects objects{.store = *store_, .clock = clock_};
  SessionStarter starter(objects, sessions_);
  schedule::RunOrder order{.run = {.id = "drun_1", .project = "default", .agent = ""},
                           .spec = {.name = "report",
                                    .agent = shown.at("agent").dump(),
                                    .environment_id = environment_.at("id"),
                                    .initial_events = shown.at("initial_events").dump()},
                           .session = schedule::session_id_for("drun_1")};
  order.run.deployment = shown.at("id");
  for (int i = 0; i < 3; ++i) {
    const auto started = run(starter.start_run(order));
    ASSERT_TRUE(started) << started.error().describe();
    ASSERT_TRUE(std::holds_alternative<schedule::SessionId>(*started));
  }
  int messages = 0;
  const auto events = run(sessions_.read_all(order.session.text()));
  ASSERT_TRUE(events);
  for (const session::StoredEvent& stored : *events)
    if (std::holds_alternative<session::UserMessage>(stored.event)) ++messages;
  EXPECT_EQ(messages, 1);
}

TEST_F(DeploymentRoutes, ASessionThatIsThereIsTheAnswerWhateverHasGoneSinceThen) {
  const auto shown = ask("POST", "/v1/deployments", wish()).json;
  std::string vault = "vlt_ours";
  bool is_vault_there = true;
  Objects objects{.store = *store_, .clock = clock_};
  objects.find_vault = [&](std::string, std::string) -> Task<Result<void>> {
    if (!is_vault_there) co_return make_error(ErrorCode::kConflict, "find vault", "archived");
    co_return {};
  };
  SessionStarter starter(objects, sessions_);
  schedule::RunOrder order{.run = {.id = "drun_1", .project = "default", .agent = ""},
                           .spec = {.name = "report",
                                    .agent = shown.at("agent").dump(),
                                    .environment_id = environment_.at("id"),
                                    .initial_events = shown.at("initial_events").dump(),
                                    .vault_ids = dump_json(Json{vault})},
                           .session = schedule::session_id_for("drun_1")};
  order.run.deployment = shown.at("id");
  const auto start = [&] { return run(starter.start_run(order)).value(); };
  ASSERT_TRUE(std::holds_alternative<schedule::SessionId>(start()));
  is_vault_there = false;
  ask("POST", "/v1/environments/" + environment_.at("id").get<std::string>() + "/archive");
  ask("POST", "/v1/agents/" + agent_.at("id").get<std::string>() + "/archive");
  EXPECT_TRUE(std::holds_alternative<schedule::SessionId>(start()));
  order.session = schedule::session_id_for("drun_2");
  EXPECT_TRUE(std::holds_alternative<schedule::RunError>(start()));
}

}  // namespace
}  // namespace pons::managed
