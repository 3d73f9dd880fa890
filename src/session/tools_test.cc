#include "pons/session/tools.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::session {
namespace {

// The model reads it: it must say something, and nothing of what it is made of.
void expect_sentence(const Error& error) {
  EXPECT_EQ(error.code, ErrorCode::kInvalid);
  EXPECT_GT(error.message.size(), 8U);
}

TEST(Tools, WrongArgumentsAreASentenceForTheModel) {
  const std::string nul = R"({"command":"a\u0000b"})";
  const std::string deep = R"({"command":)" + std::string(100, '[') + std::string(100, ']') + "}";
  const std::string twice = R"({"command":"a","command":"b"})";
  const std::string large = R"({"command":")" + std::string((1 << 20) + 1, 'a') + "\"}";
  for (const std::string& input :
       std::vector<std::string>{"",
                                "{}",
                                "[]",
                                "7",
                                "null",
                                "\"ls\"",
                                "{",
                                R"({"command":""})",
                                R"({"command":7})",
                                R"({"command":null})",
                                R"({"command":"a","cwd":"/"})",
                                R"({"unreadable":"{\"comm"})",
                                R"({"command":"a","timeout_seconds":0})",
                                R"({"command":"a","timeout_seconds":86401})",
                                R"({"command":"a","timeout_seconds":-1})",
                                R"({"command":"a","timeout_seconds":1.5})",
                                R"({"command":"a","timeout_seconds":"5"})",
                                R"({"command":"a","undo":"maybe"})",
                                R"({"command":"a","undo":true})",
                                R"({"command":"a","sandbox_id":[]})",
                                nul,
                                deep,
                                twice,
                                large,
                                R"({"command":"\ud800"})"}) {
    const auto read = read_execute(input);
    ASSERT_FALSE(read) << input.substr(0, 60);
    expect_sentence(read.error());
  }
  for (const char* input :
       {"{}", R"({"task_description":""})", R"({"task_description":1})",
        R"({"task_description":"a","keep":"yes"})", R"({"task_description":"a","template":7})"}) {
    const auto read = read_provision(input);
    ASSERT_FALSE(read) << input;
    expect_sentence(read.error());
  }
  for (const char* input : {"{}", R"({"question":""})", R"({"question":{}})"}) {
    ASSERT_FALSE(read_question(input)) << input;
    expect_sentence(read_question(input).error());
  }
  for (const char* input : {"{}", R"({"task":""})", R"({"task":"a","budget_percent":0})",
                            R"({"task":"a","budget_percent":101})"}) {
    ASSERT_FALSE(read_spawn(input)) << input;
    expect_sentence(read_spawn(input).error());
  }
}

TEST(Tools, RightArgumentsAreRead) {
  const auto run = read_execute(
      R"({"command":"ls\n","sandbox_id":"s","stdin":"i","timeout_seconds":5,"undo":"always"})");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->command, "ls\n");
  EXPECT_EQ(run->sandbox, "s");
  EXPECT_EQ(run->input, "i");
  EXPECT_EQ(run->timeout_seconds, 5);
  EXPECT_EQ(run->undo, ExecuteArguments::Undo::kAlways);
  const auto made = read_provision(R"({"task_description":"d","template":"t","keep":true})");
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->keep);
  EXPECT_EQ(made->sandbox_template, "t");
  EXPECT_EQ(read_question(R"({"question":"q"})").value(), "q");
  EXPECT_EQ(read_spawn(R"({"task":"t","budget_percent":100})")->budget_percent, 100);
}

TEST(Tools, TheModelIsToldOfExactlyThoseItMayUse) {
  const auto names = [](const AgentSpec& agent) {
    std::vector<std::string> all;
    for (const Json& tool : *parse_json(write_tools(agent))) {
      EXPECT_TRUE(is_allowed(agent, tool.at("name").get<std::string>()));
      EXPECT_EQ(tool.at("input_schema").at("type"), "object");
      all.push_back(tool.at("name"));
    }
    return all;
  };
  EXPECT_EQ(names({}).size(), 4U);
  EXPECT_EQ(names({.tools = {"ask_human"}}), std::vector<std::string>{"ask_human"});
  EXPECT_EQ(names({.depth = kDepthMax}).size(), 3U) << "no agents of agents of agents of agents";
  EXPECT_FALSE(is_allowed({}, ""));
  EXPECT_FALSE(is_allowed({}, "sandbox_Execute"));
}

TEST(Tools, OnlyACommandWithoutASandboxTakesTheLastOne) {
  EXPECT_TRUE(takes_last_sandbox(kExecute, R"({"command":"a"})"));
  EXPECT_FALSE(takes_last_sandbox(kExecute, R"({"command":"a","sandbox_id":"s"})"));
  EXPECT_FALSE(takes_last_sandbox(kExecute, "{}")) << "it is refused, and waits for nothing";
  EXPECT_FALSE(takes_last_sandbox(kAskHuman, R"({"question":"a"})"));
}

}  // namespace
}  // namespace pons::session
