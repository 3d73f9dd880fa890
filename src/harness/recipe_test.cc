#include "pons/harness/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::harness {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const Recipe& recipe(std::string_view name) {
  for (const Recipe& known : known_recipes())
    if (known.name == name) return known;
  ADD_FAILURE() << name;
  return known_recipes().front();
}

Places places() {
  return {.directory = "/opt/harness",
          .home = "/home/user",
          .model = "smart",
          .gateway = "http://gateway.pons.internal",
          .tools = "http://tools.pons.internal/mcp",
          .key = "pmk_0123",
          .session = "84a2c84c-9236-4409-af45-12eee3d57067"};
}

TEST(Recipes, ThoseThatPonsKnowsArePinned) {
  std::vector<std::string> names;
  for (const Recipe& known : known_recipes()) {
    names.push_back(known.name);
    for (const Package& package : known.packages)
      EXPECT_EQ(package.integrity.size(), std::string("sha512-").size() + 88) << known.name;
  }
  EXPECT_THAT(names, ElementsAre("claude-code", "codex", "pi", "opencode"));
}

TEST(Recipes, NoWordStaysUnfilled) {
  for (const Recipe& known : known_recipes())
    for (const Placement placement : {Placement::kBrain, Placement::kSandbox}) {
      const Start start = plan_start(known, placement, places()).value();
      std::string all;
      for (const auto& argument : start.arguments) all += argument + "\n";
      for (const auto& [name, value] : start.environment) all += name + "=" + value + "\n";
      for (const auto& [path, text] : start.files) all += path + "\n" + text + "\n";
      for (const std::string& path : start.removes) all += path + "\n";
      for (const std::string_view word :
           {"{home}", "{model}", "{key}", "{gateway}", "{tools}", "{session}", "{directory}",
            "{permission}", "{sandbox_mode}", "{more_features}"})
        EXPECT_THAT(all, Not(HasSubstr(word))) << known.name;
      EXPECT_THAT(all, HasSubstr("http://gateway.pons.internal")) << known.name;
      EXPECT_THAT(all, HasSubstr("pmk_0123")) << known.name;
      EXPECT_EQ(start.program, "/opt/harness/" + known.program);
    }
}

TEST(Recipes, FilesOfJsonAreJson) {
  for (const Recipe& known : known_recipes())
    for (const auto& [path, text] : plan_start(known, Placement::kBrain, places())->files)
      if (path.ends_with(".json")) EXPECT_TRUE(parse_json(text)) << path << text;
  EXPECT_TRUE(parse_json(plan_start(recipe("opencode"), Placement::kBrain, places())
                             ->environment.at("OPENCODE_CONFIG_CONTENT")));
}

TEST(Recipes, ToolsOfItsOwnAreOffBesideTheBrain) {
  const auto arguments = [](std::string_view name, Placement placement) {
    return plan_start(recipe(name), placement, places())->arguments;
  };
  EXPECT_THAT(arguments("claude-code", Placement::kBrain), Contains("--restricted"));
  EXPECT_THAT(arguments("claude-code", Placement::kSandbox), Not(Contains("--restricted")));
  EXPECT_THAT(arguments("pi", Placement::kBrain), Contains("--no-builtin-tools"));
  const auto codex = [](Placement placement) {
    return plan_start(recipe("codex"), placement, places())
        ->files.at("/home/user/.codex/config.toml");
  };
  EXPECT_THAT(codex(Placement::kBrain), HasSubstr("shell_tool = false\nunified_exec = false\n"));
  EXPECT_THAT(codex(Placement::kSandbox), Not(HasSubstr("shell_tool")));
}

// The session tries again by itself, more than once: each try is not to be eleven.
TEST(Recipes, AHarnessTriesAgainAFewTimesOnly) {
  const auto plan = [](std::string_view name) {
    return plan_start(recipe(name), Placement::kBrain, places()).value();
  };
  EXPECT_EQ(plan("claude-code").environment.at("CLAUDE_CODE_MAX_RETRIES"), "2");
  const Start codex = plan("codex");
  EXPECT_THAT(codex.files.at("/home/user/.codex/config.toml"),
              HasSubstr("request_max_retries = 2\nstream_max_retries = 2\n[analytics]"));
  EXPECT_THAT(plan("pi").files.at("/home/user/.pi/agent/settings.json"),
              HasSubstr(R"("maxRetries":2)"));
}

TEST(Recipes, WhoSaysHowItLivesInOnePlaceLivesInNoOther) {
  const auto read = [](std::string_view more) {
    const std::string json =
        R"({"x":{"protocol":"acp","licence":"MIT","packages":[{"name":"a","version":"1","integrity":"sha512-x"}],
"tools":"mcp","session":"theirs","memory_mb":512,"program":"p")" +
        std::string(more) + "}}";
    return read_recipes(json, "harnesses").value().front();
  };
  EXPECT_TRUE(read("").lives_in(Placement::kBrain));
  EXPECT_TRUE(read("").lives_in(Placement::kSandbox));
  EXPECT_FALSE(read(R"(,"sandbox":{})").lives_in(Placement::kBrain));
  EXPECT_TRUE(read(R"(,"sandbox":{})").lives_in(Placement::kSandbox));
}

TEST(Recipes, AConversationGoesOnByItsName) {
  Places again = places();
  EXPECT_THAT(plan_start(recipe("claude-code"), Placement::kBrain, again)->arguments,
              Contains("--session-id"));
  again.resumes = true;
  EXPECT_THAT(plan_start(recipe("claude-code"), Placement::kBrain, again)->arguments,
              Contains("--resume"));
}

TEST(Recipes, AValueThatWouldChangeAFileIsRefused) {
  for (const char* model : {"x\"", "x\n[features]", "{key}", "a b", "\\"}) {
    Places bad = places();
    bad.model = model;
    EXPECT_EQ(plan_start(recipe("codex"), Placement::kBrain, bad).error().code,
              ErrorCode::kInvalid);
  }
}

TEST(Recipes, AnOperatorDescribesAnotherInTheSameWords) {
  const auto read = read_recipes(
      R"({"mine":{"protocol":"acp","licence":"MIT","packages":[{"name":"a","version":"1","integrity":"sha512-x"}],
"program":"bin/mine","tools":"mcp","session":"theirs","memory_mb":512,"arguments":["--acp"],
"environment":{"URL":"{gateway}/v1"},"files":{"{home}/a.toml":["x = 1","y = \"{model}\""]},
"removes":["{home}/.orders"]}})",
      "harnesses");
  ASSERT_TRUE(read) << read.error().describe();
  const Start start = plan_start(read->front(), Placement::kSandbox, places()).value();
  EXPECT_THAT(start.arguments, ElementsAre("mine", "--acp"));
  EXPECT_EQ(start.files.at("/home/user/a.toml"), "x = 1\ny = \"smart\"\n");
  EXPECT_THAT(start.removes, ElementsAre("/home/user/.orders"));
  EXPECT_EQ(start.environment.at("URL"), "http://gateway.pons.internal/v1");
}

TEST(Recipes, ARefusalNamesItsPlace) {
  const auto error_of = [](std::string_view json) {
    const auto read = read_recipes(json, "harnesses");
    return read ? std::string("none") : read.error().message;
  };
  EXPECT_THAT(error_of("[]"), HasSubstr("harnesses"));
  EXPECT_THAT(error_of(R"({"X":{}})"), HasSubstr("a name has"));
  EXPECT_THAT(error_of(R"({"x":{"colour":1}})"), HasSubstr("colour"));
  EXPECT_THAT(error_of(R"({"x":{"protocol":"smtp"}})"), HasSubstr("harnesses/x/protocol"));
  const std::string good =
      R"("protocol":"acp","licence":"MIT","packages":[{"name":"a","version":"1","integrity":"sha512-x"}],
"tools":"mcp","session":"theirs","memory_mb":512)";
  EXPECT_THAT(error_of(R"({"x":{)" + good + R"(,"program":"../sh"}})"), HasSubstr("program"));
  EXPECT_THAT(error_of(R"({"x":{)" + good + R"(,"program":"p","files":{"/etc/passwd":"x"}}})"),
              HasSubstr("{home}/"));
  EXPECT_THAT(error_of(R"({"x":{)" + good + R"(,"program":"p","removes":["{home}/../x"]}})"),
              HasSubstr("{home}/"));
}

}  // namespace
}  // namespace pons::harness
