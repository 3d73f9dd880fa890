#include <gmock/gmock.h>

#include <fstream>

#include "cli_fixture.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ObjectCliTest : public AnsweredCliTest {};

constexpr const char* kAgents =
    R"({"data":[{"id":"agent_1","name":"Ann","version":3,"model":{"id":"m"},)"
    R"("updated_at":"2026-01-01T00:00:00Z","archived_at":null}],"next_page":null})";

TEST_F(ObjectCliTest, AListIsATableForPeopleAndTheApisObjectsForPrograms) {
  const Outcome listed = run_against(200, kAgents, {"agents", "ls"}, "brain");
  EXPECT_EQ(listed.exit_code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("agent_1"), HasSubstr("Ann"), HasSubstr("MODEL")));
  EXPECT_EQ(asked_, "GET /v1/agents?project=default&limit=100");
  const Outcome whole = run_against(200, kAgents, {"agents", "ls", "--all", "--json"}, "brain");
  EXPECT_THAT(whole.out, HasSubstr(R"("id":"agent_1")"));
  EXPECT_EQ(asked_, "GET /v1/agents?project=default&limit=100&include_archived=true");
}

TEST_F(ObjectCliTest, ADocumentInYamlIsSentAsTheApiTakesIt) {
  std::ofstream("agent.yaml") << "name: Ann\nmodel: m\ntools:\n  - type: agent_toolset_20260401\n"
                                 "metadata: {team: \"7\"}\n";
  const Outcome made =
      run_against(200, R"({"id":"agent_1"})",
                  {"agents", "create", "-f", "agent.yaml", "--project", "web"}, "brain");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "agent_1\n");
  EXPECT_EQ(asked_, R"(POST /v1/agents?project=web {"name":"Ann","model":"m",)"
                    R"("tools":[{"type":"agent_toolset_20260401"}],"metadata":{"team":"7"}})");
}

TEST_F(ObjectCliTest, AMistakeInAFileIsNamedByItsPlaceAndNothingIsSent) {
  std::ofstream("agent.yaml") << "name: Ann\n  model: m\n";
  const Outcome refused =
      run_against(200, "{}", {"agents", "create", "--file", "agent.yaml"}, "brain");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("agent.yaml:2"));
  std::ofstream("list.yaml") << "- a\n";
  EXPECT_EQ(run_against(200, "{}", {"agents", "create", "--file", "list.yaml"}, "brain").exit_code,
            1);
  EXPECT_EQ(asked_, "");
}

TEST_F(ObjectCliTest, VerbsGoToTheObjectThatIsNamed) {
  run_against(200, "{}", {"deployments", "pause", "depl_1"}, "brain");
  EXPECT_EQ(asked_, "POST /v1/deployments/depl_1/pause?project=default");
  run_against(200, R"({"data":[],"next_page":null})", {"deployments", "runs", "depl_1"}, "brain");
  EXPECT_EQ(asked_, "GET /v1/deployment_runs?project=default&deployment_id=depl_1&limit=100");
  run_against(200, "{}", {"environments", "rm", "a/b?c"}, "brain");
  EXPECT_EQ(asked_, "DELETE /v1/environments/a%2Fb%3Fc?project=default");
}

TEST_F(ObjectCliTest, HowFarThePackagesOfAnEnvironmentAreIsShown) {
  constexpr const char* kFailed =
      R"({"state":"failed","step":"apt","steps_done":0,"steps":3,"error":"apt: E: no \u001bsuch",)"
      R"("output":"Reading\n"})";
  const Outcome shown = run_against(200, kFailed, {"environments", "build", "env_1"}, "brain");
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(asked_, "GET /environments/env_1/build?project=default");
  EXPECT_EQ(shown.out,
            "packages: failed (apt; 0 of 3 steps are done): apt: E: no ?such\nReading\n\n");
  run_against(200, kFailed, {"environments", "build", "env_1", "--again"}, "brain");
  EXPECT_EQ(asked_, "POST /environments/env_1/build?project=default");
  EXPECT_EQ(run_against(200, R"({"state":"none"})", {"environments", "build", "e"}, "brain").out,
            "packages: none\n");
  EXPECT_THAT(run_against(200, R"({"state":"ready"})", {"environments", "show", "e"}, "brain").out,
              HasSubstr("\npackages: ready\n"));
  EXPECT_THAT(run_against(200, R"({"state":"ready"})", {"agents", "show", "a"}, "brain").out,
              Not(HasSubstr("packages:")));
}

TEST_F(ObjectCliTest, WhatTheApiRefusesIsSaidInItsWordsAndWithoutHarm) {
  const Outcome refused = run_against(
      404, R"({"type":"error","error":{"type":"not_found_error","message":"no such \u001bagent"}})",
      {"agents", "show", "agent_x"}, "brain");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("no such ?agent"), Not(HasSubstr("\x1b"))));
}

TEST_F(ObjectCliTest, LimitsAreNumbersOrNone) {
  const char* project = R"({"id":"prj_1","name":"web","limits":{"sandboxes":5,"sessions":null,)"
                        R"("requests_per_second":null}})";
  const Outcome set = run_against(
      200, project, {"project", "limit", "web", "--sandboxes", "5", "--sessions", "none"}, "brain");
  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_EQ(asked_, R"(POST /projects/web/limits {"sandboxes":5,"sessions":null})");
  EXPECT_THAT(set.out, HasSubstr("sandboxes 5, sessions -"));
  EXPECT_EQ(run_against(200, project, {"project", "limit", "web", "--sandboxes", "-1"}, "brain")
                .exit_code,
            1);
}

}  // namespace
}  // namespace pons::cli
