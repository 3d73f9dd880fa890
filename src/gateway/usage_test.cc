// What is told about usage: warnings, and the time of sandboxes.

#include <set>

#include <nlohmann/json.hpp>

#include "gateway_fixture.h"
#include "pons/base/json.h"

namespace pons::gateway {
namespace {

class UsageTest : public GatewayTest {
 protected:
  UsageTest() { open_script(R"([{"text":"Hello","usage":{"input":50,"output":35}}])"); }

  Json tell(const std::string& role, const std::string& target) {
    const Answer answer = ask(role, "GET", target);
    EXPECT_EQ(answer.status, 200) << answer.text;
    return parse_json(answer.text).value_or(Json());
  }
  Answer charge(const std::string& role, const std::string& sandboxes) {
    return ask(role, "POST", "/sandbox-time", {}, sandboxes);
  }
  Answer hold(const std::string& running) {
    return ask("brain", "POST", "/sandbox-time/running", {}, running);
  }
  Answer admit(const std::string& whose) {
    return ask("brain", "POST", "/sandbox-time/admissions", {}, whose);
  }
  int limit_seconds(const std::string& key, std::int64_t seconds) {
    return ask("operator", "PATCH", "/model-keys/" + key, {},
               R"({"limits":[{"what":"sandbox_seconds","window":"total","amount":)" +
                   std::to_string(seconds) + "}]}")
        .status;
  }
};

TEST_F(UsageTest, ALimitThatIsNearlyUsedUpIsTold) {
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  EXPECT_EQ(tell("front", "/x/usage")["warnings"], Json::array());
  ASSERT_TRUE(run(book_->keys().update(
      root,
      {.limits = std::vector<budget::Limit>{
           {.what = budget::What::kTokens, .amount = 100, .window = budget::Window::kTotal}}})));
  ASSERT_EQ(ask("front", "POST", "/v1/messages", {},
                R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})")
                .status,
            200);
  const Json expected = Json::array(
      {{{"what", "tokens"}, {"amount", 100}, {"window", "total"}, {"key", root}, {"used", 85}}});
  EXPECT_EQ(tell("front", "/x/usage")["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-usage")["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-keys")["keys"][0]["warnings"], expected);
  EXPECT_EQ(tell("operator", "/model-usage?project=other")["warnings"], Json::array());
}

TEST_F(UsageTest, TimeOfSandboxesIsUsageOfTheirProjectOnce) {
  const char* const kEnded = R"([{"id":"sbx_a","project":"default","seconds":61},)"
                             R"({"id":"sbx_b","project":"other","seconds":5}])";
  EXPECT_EQ(charge("brain", kEnded).text, "{\"charged\":2}\n");
  EXPECT_EQ(charge("brain", kEnded).text, "{\"charged\":0}\n");
  const Json rows = tell("operator", "/model-usage")["usage"];
  ASSERT_EQ(rows.size(), 1U) << rows;
  EXPECT_EQ(rows[0]["model"], "sandbox");
  EXPECT_EQ(rows[0]["sandbox_seconds"], 61);
  EXPECT_EQ(tell("operator", "/model-usage?project=other")["usage"][0]["sandbox_seconds"], 5);
}

TEST_F(UsageTest, OnlyTheBrainTellsOfSandboxesAndInThisShape) {
  EXPECT_EQ(charge("front", R"([{"id":"a","project":"default","seconds":1}])").status, 403);
  for (const char* wrong : {"", "{}", R"([{"id":"a","project":"default"}])",
                            R"([{"id":"a","project":"default","seconds":0}])",
                            R"([{"id":"","project":"default","seconds":1}])",
                            R"([{"id":"a","project":"a/b","seconds":1}])"})
    EXPECT_EQ(charge("brain", wrong).status, 400) << wrong;
  EXPECT_EQ(tell("operator", "/model-usage")["usage"], Json::array());
}

TEST_F(UsageTest, EachAgentsUsageIsToldByItsName) {
  const auto call = [&](const std::string& role, const char* agent) {
    return ask(role, "POST", "/v1/messages", {{"x-pons-agent", agent}},
               R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})")
        .status;
  };
  EXPECT_EQ(call("brain", "writer"), 200);
  EXPECT_EQ(call("brain", "Pr%C3%BCfer%201"), 200);
  EXPECT_EQ(call("brain", "Pr%C3%BCfer%201"), 200);
  EXPECT_EQ(call("front", "writer"), 200);  // who is not the brain has no agents
  const auto requests = [&](const std::string& role, const std::string& target) {
    std::map<std::string, std::int64_t> by_agent;
    for (const Json& row : tell(role, target)["usage"])
      by_agent[row["agent"].is_null() ? "-" : row["agent"].get<std::string>()] =
          row["requests"].get<std::int64_t>();
    return by_agent;
  };
  using Sums = std::map<std::string, std::int64_t>;
  const Sums all = {{"writer", 1}, {"Pr\u00fcfer 1", 2}};
  for (const auto& [role, target] :
       {std::pair("front", "/x/usage?by=agent"), std::pair("operator", "/model-usage?by=agent")})
    EXPECT_EQ(requests(role, target), all);
  EXPECT_EQ(requests("front", "/x/usage?agent=Pr%C3%BCfer%201"), (Sums{{"Pr\u00fcfer 1", 2}}));
  EXPECT_EQ(requests("front", "/x/usage?agent=nobody"), Sums());
  EXPECT_EQ(requests("front", "/x/usage"), (Sums{{"-", 4}})) << "the project, with its agents";
  EXPECT_EQ(requests("operator", "/model-usage?by=agent&model=other"), Sums());
  EXPECT_EQ(ask("front", "GET", "/x/usage?by=weight").status, 400);
}

TEST_F(UsageTest, WhatIsMoreThanAPageIsToldPageByPage) {
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(run(book_->charge_sandbox(
        run(book_->keys().create({.project_id = "default", .name = "key"}))->key.id,
        "sbx_" + std::to_string(i), 1)));
  const auto all = [&](const std::string& target, const char* list, const char* id) {
    std::set<std::string> ids;
    std::size_t rows = 0;
    std::string page;
    do {
      const Json answer =
          tell("operator", target + "?limit=2" + (page.empty() ? "" : "&page=" + page));
      EXPECT_LE(answer[list].size(), 2U);
      for (const Json& row : answer[list]) {
        ids.insert(row[id].get<std::string>());
        ++rows;
      }
      page = answer["next_page"].is_null() ? "" : answer["next_page"].get<std::string>();
    } while (!page.empty() && rows < 100);
    EXPECT_EQ(rows, ids.size()) << "each once";
    return ids.size();
  };
  EXPECT_EQ(all("/model-usage", "usage", "key"), 6U) << "the project's own, too";
  EXPECT_EQ(all("/model-keys", "keys", "id"), 6U);
  EXPECT_TRUE(tell("front", "/x/usage")["next_page"].is_null());
  for (const char* wrong : {"?limit=0", "?limit=5001", "?limit=x", "?page=x"})
    EXPECT_EQ(ask("operator", "GET", std::string("/model-usage") + wrong).status, 400) << wrong;
  EXPECT_EQ(ask("operator", "GET", "/model-keys?state=bad").status, 400);
}

TEST_F(UsageTest, AnAgentsOwnLimitStopsItAndNobodyElse) {
  const std::string agent = run(book_->keys().ensure_agent("default", "writer"))->id;
  ASSERT_EQ(ask("operator", "PATCH", "/model-keys/" + agent, {},
                R"({"limits":[{"what":"requests","amount":0,"window":"total"}]})")
                .status,
            200);
  const auto call = [&](const char* name) {
    return ask("brain", "POST", "/v1/messages", {{"x-pons-agent", name}},
               R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})")
        .status;
  };
  EXPECT_EQ(call("writer"), 429);
  EXPECT_EQ(call("reader"), 200);
}

TEST_F(UsageTest, ACallerHearsNothingOfOtherProjectsOrKeysBesideItsOwn) {
  const std::string other = run(book_->keys().ensure_root("other"))->id;
  EXPECT_EQ(ask("front", "GET", "/x/usage?key=" + other).status, 404);
  EXPECT_EQ(ask("front", "GET", "/x/usage?by=agent&key=" + other).status, 404);
  const auto ana = run(book_->keys().create({.project_id = "default", .name = "ana"}));
  const auto ben = run(book_->keys().create({.project_id = "default", .name = "ben"}));
  ASSERT_TRUE(ana && ben);
  const auto ask_as_ana = [&](const std::string& target) {
    return ask("front", "GET", target, {{"x-pons-key", ana->key.id}}).status;
  };
  EXPECT_EQ(ask_as_ana("/x/usage"), 200);
  EXPECT_EQ(ask_as_ana("/x/usage?key=" + ben->key.id), 404);
  EXPECT_EQ(ask_as_ana("/x/usage?key=" + run(book_->keys().ensure_root("default"))->id), 404);
  EXPECT_EQ(ask("front", "GET", "/x/usage?key=" + ben->key.id).status, 200) << "below the root";
}

TEST_F(UsageTest, TimeOfAnAgentsSandboxesIsItsAndItsProjects) {
  EXPECT_EQ(charge("brain", R"([{"id":"a","project":"default","agent":"writer","seconds":7},)"
                            R"({"id":"b","project":"default","seconds":2}])")
                .status,
            200);
  const Json by_agent = tell("operator", "/model-usage?by=agent")["usage"];
  ASSERT_EQ(by_agent.size(), 1U) << by_agent;
  EXPECT_EQ(by_agent[0]["agent"], "writer");
  EXPECT_EQ(by_agent[0]["sandbox_seconds"], 7);
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  EXPECT_EQ(tell("operator", "/model-usage?key=" + root)["usage"][0]["sandbox_seconds"], 9);
  // An agent that was revoked has still used it.
  const std::string agent = run(book_->keys().ensure_agent("default", "writer"))->id;
  ASSERT_TRUE(run(book_->keys().revoke(agent)));
  EXPECT_EQ(
      charge("brain", R"([{"id":"c","project":"default","agent":"writer","seconds":3}])").text,
      "{\"charged\":1}\n");
  EXPECT_EQ(tell("operator", "/model-usage?key=" + root)["usage"][0]["sandbox_seconds"], 12);
}

TEST_F(UsageTest, ASandboxForWhichALimitHasNoRoomIsRefusedInWordsThatHelp) {
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  EXPECT_EQ(hold("[]").text, "{\"limited\":[]}\n");
  ASSERT_EQ(limit_seconds(root, 60), 200);
  EXPECT_EQ(hold(R"([{"project":"default","seconds":40},{"project":"other","seconds":9}])").text,
            "{\"limited\":[\"default\"]}\n");
  EXPECT_EQ(admit(R"({"project":"default"})").status, 200);
  EXPECT_EQ(tell("operator", "/model-keys")["keys"][0]["limits"][0]["used"], 41)
      << "with what runs";
  EXPECT_EQ(tell("front", "/x/usage")["warnings"], Json::array());
  EXPECT_EQ(hold(R"([{"project":"default","seconds":60}])").status, 200);
  EXPECT_EQ(tell("front", "/x/usage")["warnings"].size(), 1U);
  const Answer refused = admit(R"({"project":"default"})");
  EXPECT_EQ(refused.status, 429);
  for (const char* word : {"60 sandbox_seconds", "pons keys set", root.c_str()})
    EXPECT_NE(refused.text.find(word), std::string::npos) << refused.text;
  EXPECT_EQ(admit(R"({"project":"other"})").status, 200);
}

TEST_F(UsageTest, ALimitOfAnAgentsSandboxesStopsItAndNoOther) {
  const std::string agent = run(book_->keys().ensure_agent("default", "writer"))->id;
  ASSERT_EQ(limit_seconds(agent, 10), 200) << "it has sandboxes";
  EXPECT_EQ(hold(R"([{"project":"default","agent":"writer","seconds":10}])").text,
            "{\"limited\":[\"default\"]}\n");
  EXPECT_EQ(admit(R"({"project":"default","agent":"writer"})").status, 429);
  EXPECT_EQ(admit(R"({"project":"default","agent":"reader"})").status, 200);
  EXPECT_EQ(admit(R"({"project":"default"})").status, 200);
}

TEST_F(UsageTest, OnlyTheBrainAsksForSandboxesAndInThisShape) {
  for (const char* target : {"/sandbox-time/running", "/sandbox-time/admissions"})
    EXPECT_EQ(ask("front", "POST", target, {}, "[]").status, 403);
  for (const char* wrong : {"", "{}", R"([{"project":"default"}])", R"([{"seconds":1}])",
                            R"([{"project":"default","seconds":-1}])",
                            R"([{"project":"default","seconds":1,"id":"a"}])"})
    EXPECT_EQ(hold(wrong).status, 400) << wrong;
  for (const char* wrong : {"", "[]", "{}", R"({"project":"a/b"})", R"({"project":1})"})
    EXPECT_EQ(admit(wrong).status, 400) << wrong;
}

TEST_F(UsageTest, TimeOfSandboxesThatIsUsedUpStopsItsProject) {
  const std::string root = run(book_->keys().ensure_root("default"))->id;
  const auto limit = [&](const std::string& method, const std::string& target, const char* more) {
    return ask("operator", method, target, {},
               R"({"limits":[{"what":"sandbox_seconds","amount":60,"window":"day"}])" +
                   std::string(more) + "}")
        .status;
  };
  EXPECT_EQ(limit("POST", "/model-keys", R"(,"name":"ana")"), 400) << "it would never be reached";
  EXPECT_EQ(limit("PATCH", "/model-keys/" + root, ""), 200);
  const auto call = [&] {
    return ask("brain", "POST", "/v1/messages", {},
               R"({"model":"test","max_tokens":5,"messages":[{"role":"user","content":"hi"}]})");
  };
  EXPECT_EQ(charge("brain", R"([{"id":"a","project":"default","seconds":59}])").status, 200);
  EXPECT_EQ(call().status, 200);
  EXPECT_EQ(charge("brain", R"([{"id":"b","project":"default","seconds":1}])").status, 200);
  const Answer stopped = call();
  EXPECT_EQ(stopped.status, 429);
  EXPECT_NE(stopped.text.find("sandbox_seconds"), std::string::npos) << stopped.text;
}

}  // namespace
}  // namespace pons::gateway
