#include "sandbox_toolbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/linux/run_task.h"
#include "pons/sandbox/refusing_provider.h"

namespace pons::brain {
namespace {

using testing::HasSubstr;
using testing::Not;

class FewSandboxes final : public session::Hands {
 public:
  explicit FewSandboxes(linux::Loop& loop) : gate(loop) { gate.set(); }

  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override {
    co_await gate.wait(kNever);
    if (order.sandbox_template == "none")
      co_return make_error(ErrorCode::kNotFound, "provision", "there is no template \"none\"");
    alive[order.sandbox] = {
        .id = order.sandbox,
        .template_name = order.sandbox_template,
        .labels = {{"pons.session", order.session}, {"pons.project", order.project}}};
    co_return session::ProvisionReport{.contents = "Linux"};
  }
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    if (!alive.contains(order.sandbox))
      co_return make_error(ErrorCode::kNotFound, "execute", "it is gone");
    calls.insert(order.call);
    if (order.command == "long") co_await gate.wait(kNever);
    if (order.command == "much")
      co_return session::ExecuteReport{.output = std::string(100'000, 'a') + "hunter2" +
                                                 std::string(100'000, 'b')};
    // The secret stands exactly where the output is cut.
    if (order.command == "edge")
      co_return session::ExecuteReport{.output =
                                           std::string(session::kResultBytesMax / 2 - 3, 'a') +
                                           "hunter2" + std::string(100'000, 'b')};
    co_return session::ExecuteReport{.code = order.command == "false" ? 1 : 0,
                                     .output = order.command + order.input};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return refusal(); }
  Task<Result<void>> stop(std::string sandbox, std::string call) override {
    stopped.insert(sandbox + " " + call);
    co_return {};
  }
  Task<Result<void>> destroy(std::string id) override {
    if (failures > 0 && failures-- > 0) co_return refusal();
    alive.erase(id);
    co_return {};
  }

  static Error refusal() { return make_error(ErrorCode::kUnavailable, "ask", "went away"); }

  linux::Event gate;
  int failures = 0;
  std::map<std::string, sandbox::SandboxInfo> alive;
  std::set<std::string> calls;
  std::set<std::string> stopped;
};

// The same, as a provider shows them.
class ListOfThem final : public sandbox::RefusingProvider {
 public:
  explicit ListOfThem(const FewSandboxes& sandboxes) : sandboxes_(sandboxes) {}

  Task<Result<sandbox::SandboxInfo>> inspect(std::string id) override {
    if (!sandboxes_.alive.contains(id))
      co_return make_error(ErrorCode::kNotFound, "inspect", "none");
    co_return sandboxes_.alive.at(id);
  }
  Task<Result<std::vector<sandbox::SandboxInfo>>> list() override {
    std::vector<sandbox::SandboxInfo> all;
    for (const auto& [id, info] : sandboxes_.alive) all.push_back(info);
    co_return all;
  }

 private:
  const FewSandboxes& sandboxes_;
};

class Password final : public session::Boundary {
 public:
  Task<Result<session::Redaction>> redact(Text text) override {
    session::Redaction clean{.text = std::move(text.text)};
    looked_for = std::move(text.sandboxes);
    while (clean.text.find("hunter2") != std::string::npos) {
      clean.text.replace(clean.text.find("hunter2"), 7, "xxxxxxx");
      clean.redacted = {"password"};
    }
    co_return clean;
  }
  std::vector<std::string> looked_for;
};

class SandboxToolboxTest : public testing::Test {
 protected:
  SandboxToolboxTest()
      : loop_(std::move(*linux::Loop::create())),
        sandboxes_(*loop_),
        list_(sandboxes_),
        toolbox_(std::make_unique<SandboxToolbox>(*loop_, sandboxes_, boundary_, list_,
                                                  session::AgentSpec{.environment = "web"})) {}

  mcp::ToolCall order(std::string tool, std::string arguments, std::string session = "s",
                      std::string project = "p") {
    return {.session = session,
            .project = std::move(project),
            .id = session + ":" + std::to_string(++made_),
            .name = std::move(tool),
            .arguments = std::move(arguments)};
  }
  mcp::ToolResult call(mcp::ToolCall wish) {
    const auto result = linux::run_to_end(*loop_, toolbox_->call(std::move(wish)));
    if (!result) {
      ADD_FAILURE() << result.error().describe();
      return {};
    }
    return *result;
  }
  mcp::ToolResult provision(const std::string& more = "", const std::string& session = "s") {
    return call(order("sandbox_provision", R"({"task_description":"t")" + more + "}", session));
  }
  mcp::ToolResult execute(const std::string& command, const std::string& sandbox = "",
                          const std::string& session = "s", const std::string& project = "p") {
    return call(order("sandbox_execute",
                      R"({"command":")" + command + R"(","sandbox_id":")" + sandbox + R"("})",
                      session, project));
  }
  static std::string id_in(const mcp::ToolResult& result) {
    const std::size_t begin = result.text.find("sx-");
    return begin == std::string::npos ? ""
                                      : result.text.substr(begin, result.text.find('\n') - begin);
  }
  void settle() {
    const auto pause = [](linux::Loop& loop) -> Task<bool> {
      co_await loop.sleep_for(std::chrono::milliseconds(20));
      co_return true;
    };
    (void)linux::run_to_end(*loop_, pause(*loop_));
  }

  int made_ = 0;
  std::unique_ptr<linux::Loop> loop_;
  FewSandboxes sandboxes_;
  ListOfThem list_;
  Password boundary_;
  std::unique_ptr<SandboxToolbox> toolbox_;
};

TEST_F(SandboxToolboxTest, OffersTheTwoToolsThatAgentsHave) {
  const Json tools = *parse_json(toolbox_->list("default"));
  ASSERT_EQ(tools.size(), 2U);
  EXPECT_EQ(tools[0].at("name"), "sandbox_provision");
  EXPECT_EQ(tools[1].at("name"), "sandbox_execute");
  EXPECT_EQ(tools[1].at("inputSchema").at("required"), Json({"command"}));
  EXPECT_THAT(toolbox_->list("default"), Not(HasSubstr("turn unless")));
  for (const char* tool : {"ask_human", "spawn_agent", "nothing"}) {
    const auto refused = linux::run_to_end(*loop_, toolbox_->call(order(tool, "{}")));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  }
}

TEST_F(SandboxToolboxTest, AnAgentThatMayNotHaveThemLendsNone) {
  SandboxToolbox none(*loop_, sandboxes_, boundary_, list_, {.tools = {"ask_human"}});
  EXPECT_EQ(none.list("default"), "[]");
}

TEST_F(SandboxToolboxTest, ACommandRunsInTheLastSandboxOfItsSession) {
  EXPECT_THAT(execute("ls").text, HasSubstr("sandbox_provision first"));
  const std::string first = id_in(provision());
  const std::string second = id_in(provision());
  ASSERT_NE(first, second);
  const auto done = execute("echo");
  EXPECT_THAT(done.text, HasSubstr("echo\n[exit code 0"));
  EXPECT_FALSE(done.is_error);
  EXPECT_TRUE(execute("false", first).is_error);
  EXPECT_EQ(boundary_.looked_for.size(), 2U) << "stand-ins of all its sandboxes are looked for";
  EXPECT_EQ(sandboxes_.alive.at(first).template_name, "host");
}

TEST_F(SandboxToolboxTest, WrongArgumentsAreAResultThatSaysWhatIsWrong) {
  EXPECT_TRUE(call(order("sandbox_execute", "{}")).is_error);
  EXPECT_TRUE(call(order("sandbox_provision", R"({"surprise":1})")).is_error);
  EXPECT_THAT(provision(R"(,"template":"none")").text, HasSubstr("no template"));
  EXPECT_THAT(execute("ls", "../../etc").text, HasSubstr("There is no sandbox"));
}

TEST_F(SandboxToolboxTest, SecretsAreTakenOutBeforeAnythingIsCut) {
  (void)provision();
  for (const char* command : {"hunter2", "much", "edge"}) {
    const std::string text = execute(command).text;
    EXPECT_THAT(text, Not(HasSubstr("hun"))) << command;
    EXPECT_THAT(text, Not(HasSubstr("ter2"))) << command;
    EXPECT_LT(text.size(), session::kResultBytesMax + 1'000);
  }
  EXPECT_THAT(execute("edge").text, HasSubstr("aaxxx"));
}

TEST_F(SandboxToolboxTest, SandboxesEndWithTheirSessionUnlessTheyAreKept) {
  const std::string gone = id_in(provision());
  const std::string kept = id_in(provision(R"(,"keep":true)"));
  sandboxes_.failures = 1;
  toolbox_->end("s");
  settle();
  settle();
  for (int i = 0; i < 100 && sandboxes_.alive.contains(gone); ++i) settle();
  EXPECT_FALSE(sandboxes_.alive.contains(gone));
  EXPECT_TRUE(sandboxes_.alive.contains(kept));
  EXPECT_THAT(execute("echo", kept, "later").text, HasSubstr("exit code 0"));
  toolbox_->end("later");
  settle();
  EXPECT_TRUE(sandboxes_.alive.contains(kept));
}

TEST_F(SandboxToolboxTest, NobodyReachesASandboxOfAnotherSessionOrProject) {
  const std::string own = id_in(provision());
  const std::string kept = id_in(provision(R"(,"keep":true)"));
  EXPECT_THAT(execute("ls", own, "t").text, HasSubstr("There is no sandbox"));
  EXPECT_THAT(execute("ls", kept, "t", "q").text, HasSubstr("There is no sandbox"));
  EXPECT_EQ(sandboxes_.calls.size(), 0U);
}

TEST_F(SandboxToolboxTest, ASessionHasSoManySandboxesAndAProjectKeepsSoMany) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(provision().is_error);
  EXPECT_TRUE(provision().is_error);
  for (int i = 0; i < 50; ++i)
    EXPECT_FALSE(provision(R"(,"keep":true)", "k" + std::to_string(i / 10)).is_error);
  EXPECT_THAT(provision(R"(,"keep":true)", "one more").text, HasSubstr("keeps 50"));
}

TEST_F(SandboxToolboxTest, ACancelledCommandIsStopped) {
  const std::string sandbox = id_in(provision());
  sandboxes_.gate.reset();
  linux::TaskGroup group(*loop_);
  const auto wait = [](Task<Result<mcp::ToolResult>> task) -> Task<> {
    (void)co_await std::move(task);
  };
  mcp::ToolCall wish = order("sandbox_execute", R"({"command":"long"})");
  const std::string id = wish.id;
  group.spawn(wait(toolbox_->call(std::move(wish))));
  settle();
  toolbox_->cancel("s", "s:99");
  toolbox_->cancel("s", id);
  settle();
  EXPECT_EQ(sandboxes_.stopped, std::set{sandbox + " " + id});
  sandboxes_.gate.set();
  settle();
}

TEST_F(SandboxToolboxTest, ASandboxThatComesAfterTheEndOfItsSessionGoesAtOnce) {
  sandboxes_.gate.reset();
  linux::TaskGroup group(*loop_);
  const auto wait = [](Task<Result<mcp::ToolResult>> task, bool& failed) -> Task<> {
    failed = !(co_await std::move(task)).has_value();
  };
  bool failed = false;
  group.spawn(
      wait(toolbox_->call(order("sandbox_provision", R"({"task_description":"t"})")), failed));
  toolbox_->end("s");
  sandboxes_.gate.set();
  settle();
  EXPECT_TRUE(failed);
  EXPECT_TRUE(sandboxes_.alive.empty());
}

TEST_F(SandboxToolboxTest, WhatAFormerProcessLeftIsEndedAndWhatWasKeptIsFound) {
  const std::string left = id_in(provision());
  const std::string kept = id_in(provision(R"(,"keep":true)"));
  sandboxes_.alive["sx-agents"] = {
      .id = "sx-agents", .labels = {{"pons.session", "mcp_agents"}, {"pons.project", "p"}}};
  toolbox_ =
      std::make_unique<SandboxToolbox>(*loop_, sandboxes_, boundary_, list_, session::AgentSpec{});
  const std::string fresh = id_in(provision("", "new"));
  const auto sweep = [](SandboxToolbox& toolbox) -> Task<bool> {
    co_await toolbox.end_orphans();
    co_return true;
  };
  (void)linux::run_to_end(*loop_, sweep(*toolbox_));
  settle();
  EXPECT_FALSE(sandboxes_.alive.contains(left));
  EXPECT_TRUE(sandboxes_.alive.contains(fresh));
  EXPECT_TRUE(sandboxes_.alive.contains("sx-agents")) << "an agent's session of a similar name";
  EXPECT_THAT(execute("echo", kept, "new").text, HasSubstr("exit code 0"));
}

}  // namespace
}  // namespace pons::brain
