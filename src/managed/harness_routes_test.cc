// Harnesses of agents, as a client of the API names them.

#include "api_fixture.h"

namespace pons::managed {
namespace {

class HarnessRoutes : public ApiTest {
 protected:
  void SetUp() override { api_.use_harnesses({.names = {"codex", "pi"}, .usual = "native"}); }

  Answer create_agent(const char* name, const Json& metadata, const Json& more = Json::object()) {
    Json body = {{"name", name}, {"model", "m"}, {"metadata", metadata}};
    body.update(more);
    return ask("POST", "/v1/agents", body);
  }
  static Json coordinating(const Json& members) {
    return {{"multiagent", {{"type", "coordinator"}, {"agents", members}}}};
  }
  std::string create_session(const Json& agent) {
    const Answer made = ask("POST", "/v1/sessions",
                            {{"agent", agent.at("id")}, {"environment_id", environment_.at("id")}});
    EXPECT_EQ(made.status, 200) << made.json.dump();
    return made.json.at("id");
  }
  session::AgentSpec first_spec(const std::string& session) {
    const auto events = run(sessions_.read_all(session));
    return std::get<session::Created>(events.value().front().event).agent;
  }
  session::AgentSpec last_spec(const std::string& session) {
    session::AgentSpec spec;
    for (const auto& stored : run(sessions_.read_all(session)).value())
      if (const auto* changed = std::get_if<session::AgentChanged>(&stored.event))
        spec = changed->agent;
    return spec;
  }
};

TEST_F(HarnessRoutes, AMemberOfACoordinatorHasTheHarnessThatItNames) {
  const Json writer = create_agent("writer", {{"harness", "codex"}}).json;
  const Json reader = create_agent("reader", Json::object()).json;
  const Json lead =
      create_agent("lead", {{"harness", "pi"}, {"placement", "sandbox"}},
                   coordinating({writer.at("id"), reader.at("id"), {{"type", "self"}}}))
          .json;
  const std::string session = create_session(lead);
  const session::AgentSpec spec = first_spec(session);
  EXPECT_EQ(spec.harness, "pi");
  ASSERT_NE(spec.members.find("writer"), nullptr);
  EXPECT_EQ(spec.members.find("writer")->harness, "codex");
  EXPECT_EQ(spec.members.find("reader")->harness, "");
  // One harness is enough in a machine.
  EXPECT_EQ(spec.members.find("lead")->harness, "");
  EXPECT_FALSE(spec.members.find("lead")->harness_in_machine);

  // It stays when the agent's tools are changed.
  ASSERT_EQ(ask("POST", "/v1/sessions/" + session,
                {{"agent", {{"tools", Json::array({{{"type", "agent_toolset_20260401"}}})}}}})
                .status,
            200);
  ASSERT_NE(last_spec(session).members.find("writer"), nullptr);
  EXPECT_EQ(last_spec(session).members.find("writer")->harness, "codex");
}

TEST_F(HarnessRoutes, AMemberDoesNotLiveInTheMachineOfItsSession) {
  const Json inside = create_agent("inside", {{"harness", "codex"}, {"placement", "sandbox"}}).json;
  const Answer lead =
      create_agent("lead", Json::object(), coordinating(Json::array({inside.at("id")})));
  EXPECT_EQ(lead.status, 400) << lead.json.dump();
  EXPECT_NE(lead.json.dump().find("placement: brain"), std::string::npos) << lead.json.dump();
}

}  // namespace
}  // namespace pons::managed
