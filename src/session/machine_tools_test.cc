#include "pons/session/machine_tools.h"

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/session/tools.h"

namespace pons::session {
namespace {

using testing::HasSubstr;

// The commands are run here by the shell that a sandbox has, too.
class MachineTools : public testing::Test {
 protected:
  MachineTools() : folder_(testing::TempDir() + "machine-" + random_text(8)) {
    std::filesystem::create_directory(folder_);
  }
  ~MachineTools() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  void put(std::string_view name, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  std::string get(std::string_view name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

  ToolText run(std::string_view tool, const Json& input) const {
    const auto command = read_machine_call(tool, dump_json(input));
    EXPECT_TRUE(command) << command.error().message;
    if (!command) return {};
    std::ofstream(path(".script")) << command->command;
    std::ofstream(path(".input")) << command->input;
    const std::string line = "cd '" + folder_ + "' && /bin/sh .script < .input 2>&1";
    FILE* pipe = popen(line.c_str(), "r");
    std::string output;
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) output += static_cast<char>(c);
    const int status = pclose(pipe);
    return describe_machine(tool, {.code = WEXITSTATUS(status), .output = std::move(output)});
  }

  std::string folder_;
};

std::string refusal(std::string_view tool, const Json& input) {
  const auto command = read_machine_call(tool, dump_json(input));
  return command ? "" : command.error().message;
}

TEST_F(MachineTools, ReadNumbersLinesAndTakesARange) {
  put("a.txt", "one\ntwo\nthree\n");
  EXPECT_EQ(run("read", {{"file_path", path("a.txt")}}).text,
            "     1\tone\n     2\ttwo\n     3\tthree\n");
  EXPECT_EQ(run("read", {{"file_path", path("a.txt")}, {"view_range", {2, 2}}}).text,
            "     2\ttwo\n");
  EXPECT_EQ(run("read", {{"file_path", path("a.txt")}, {"view_range", {3, -1}}}).text,
            "     3\tthree\n");
  EXPECT_TRUE(run("read", {{"file_path", path("none")}}).is_error);
  EXPECT_TRUE(run("read", {{"file_path", folder_}}).is_error);
}

TEST_F(MachineTools, WriteMakesFoldersAndKeepsEveryByte) {
  const std::string content = "it's \"quoted\" $HOME `id` \\n\nlast line without an end";
  EXPECT_FALSE(run("write", {{"file_path", path("x/y/z.txt")}, {"content", content}}).is_error);
  EXPECT_EQ(get("x/y/z.txt"), content);
}

TEST_F(MachineTools, EditReplacesExactlyOnePiece) {
  put("f", "a $x 'b' \\1 & c\nsecond\n");
  EXPECT_FALSE(run("edit", {{"file_path", path("f")},
                            {"old_string", "$x 'b' \\1 & c\nsec"},
                            {"new_string", "it's & \\0 \"new\"\nse"}})
                   .is_error);
  EXPECT_EQ(get("f"), "a it's & \\0 \"new\"\nseond\n");
}

TEST_F(MachineTools, EditRefusesWhatIsNotThereOrThereTwice) {
  put("f", "same same\n");
  const ToolText missing =
      run("edit", {{"file_path", path("f")}, {"old_string", "none"}, {"new_string", "x"}});
  EXPECT_TRUE(missing.is_error);
  EXPECT_THAT(missing.text, HasSubstr("not in the file"));
  const ToolText twice =
      run("edit", {{"file_path", path("f")}, {"old_string", "same"}, {"new_string", "x"}});
  EXPECT_TRUE(twice.is_error);
  EXPECT_THAT(twice.text, HasSubstr("2 times"));
  EXPECT_EQ(get("f"), "same same\n");
  EXPECT_FALSE(run("edit", {{"file_path", path("f")},
                            {"old_string", "same"},
                            {"new_string", "same again"},
                            {"replace_all", true}})
                   .is_error);
  EXPECT_EQ(get("f"), "same again same again\n");
  EXPECT_FALSE(std::filesystem::exists(path("f.pons-edit")));
}

TEST_F(MachineTools, GlobKnowsStarsAndDepth) {
  put("a.py", "");
  put("d/b.py", "");
  put("d/e/c.py", "");
  put("d/a+b(1).txt", "");
  EXPECT_EQ(run("glob", {{"pattern", "**/*.py"}, {"path", folder_}}).text,
            "a.py\nd/b.py\nd/e/c.py\n");
  EXPECT_EQ(run("glob", {{"pattern", "*.py"}, {"path", folder_}}).text, "a.py\n");
  EXPECT_EQ(run("glob", {{"pattern", "d/a+b(?).txt"}, {"path", folder_}}).text, "d/a+b(1).txt\n");
  EXPECT_EQ(run("glob", {{"pattern", folder_ + "/d/*.py"}}).text, folder_ + "/d/b.py\n");
  const ToolText nothing = run("glob", {{"pattern", "*.rs"}, {"path", folder_}});
  EXPECT_EQ(nothing.text, "nothing matches");
  EXPECT_FALSE(nothing.is_error);
}

TEST_F(MachineTools, GrepFindsLinesAndTakesNoPatternForAnOption) {
  put("a.txt", "first\n--version\n");
  EXPECT_THAT(run("grep", {{"pattern", "--version"}, {"path", path("a.txt")}}).text,
              HasSubstr("2:--version"));
  EXPECT_EQ(run("grep", {{"pattern", "absent"}, {"path", folder_ + "/a.txt"}}).text,
            "nothing matches");
}

TEST_F(MachineTools, TextIsNeverMoreThanAWordOfTheShell) {
  for (const char* hostile : {"'; touch broken; '", "$(touch broken)", "`touch broken`", "-rf",
                              "a\nb; touch broken", "--\n*"}) {
    run("read", {{"file_path", hostile}});
    run("glob", {{"pattern", hostile}, {"path", hostile}});
    run("grep", {{"pattern", hostile}, {"path", hostile}});
    run("edit", {{"file_path", hostile}, {"old_string", hostile}, {"new_string", "x"}});
    EXPECT_FALSE(std::filesystem::exists(path("broken"))) << hostile;
  }
}

TEST_F(MachineTools, ArgumentsThatAreWrongAreSentencesForTheModel) {
  EXPECT_THAT(refusal("bash", Json::object()), HasSubstr("command"));
  EXPECT_THAT(refusal("bash", {{"command", "x"}, {"timeout_ms", 0}}), HasSubstr("timeout_ms"));
  EXPECT_THAT(refusal("bash", {{"command", std::string("a\0b", 3)}}), HasSubstr("NUL"));
  EXPECT_THAT(refusal("read", {{"file_path", ""}}), HasSubstr("empty"));
  EXPECT_THAT(refusal("read", {{"file_path", "a"}, {"view_range", {5, 2}}}),
              HasSubstr("ends before"));
  EXPECT_THAT(refusal("edit", {{"file_path", "a"}, {"old_string", ""}, {"new_string", "x"}}),
              HasSubstr("empty"));
  EXPECT_THAT(refusal("edit", {{"file_path", "a"}, {"old_string", "x"}, {"new_string", "x"}}),
              HasSubstr("the same"));
  EXPECT_THAT(refusal("web_fetch", {{"url", "file:///etc/passwd"}}), HasSubstr("https"));
  EXPECT_THAT(refusal("grep", {{"pattern", "a"}, {"nonsense", 1}}), HasSubstr("nonsense"));
  EXPECT_FALSE(read_machine_call("bash", "[1"));
}

bool may_fetch(const std::string& url, const WebRules& rules) {
  return read_machine_call("web_fetch", dump_json({{"url", url}}), rules).has_value();
}

TEST(WebFetch, FetchesFromTheHostsThatItsRulesName) {
  const WebRules rules{.allowed = {"docs.example.com", "Example.ORG"}};
  for (const char* url : {"https://docs.example.com", "http://a.docs.example.com:8080/x?y#z",
                          "https://EXAMPLE.org/", "https://example.org./"})
    EXPECT_TRUE(may_fetch(url, rules)) << url;
  for (const char* url :
       {"https://example.com", "https://notdocs.example.com/", "https://docs.example.com.evil.net/",
        "https://docs.example.com@evil.net/", "https://evil.net\\@docs.example.com/",
        "https://evil.net/docs.example.com", "https://[::1]/", "https:///docs.example.com",
        "https://evil.net#.docs.example.com", "https://{docs.example.com,evil.net}/"})
    EXPECT_FALSE(may_fetch(url, rules)) << url;
}

TEST(WebFetch, FetchesFromAllHostsButThoseThatAreBlocked) {
  const WebRules rules{.blocked = {"ads.example.com"}};
  EXPECT_TRUE(may_fetch("https://example.com/", rules));
  EXPECT_FALSE(may_fetch("https://x.ads.example.com/", rules));
  EXPECT_FALSE(may_fetch("https://ADS.example.com./", rules));
  EXPECT_FALSE(may_fetch("https://x@ads.example.com/", rules));
}

TEST(MachineAgent, OffersTheToolsThatItListsAndNoOthers) {
  AgentSpec agent{.tools = {"bash", "read"}};
  agent.custom.push_back({.name = "own", .definition = R"({"name":"own"})"});
  EXPECT_TRUE(is_allowed(agent, "bash"));
  EXPECT_TRUE(is_allowed(agent, "own"));
  EXPECT_FALSE(is_allowed(agent, "write"));
  EXPECT_FALSE(is_allowed(agent, kProvision));
  const auto tools = parse_json(write_tools(agent));
  ASSERT_TRUE(tools);
  ASSERT_EQ(tools->size(), 3U);
  EXPECT_EQ((*tools)[2]["name"], "own");
  EXPECT_FALSE(is_allowed({}, "bash")) << "an agent that lists nothing takes sandboxes";
  EXPECT_TRUE(is_done_outside(agent, "own"));
  EXPECT_FALSE(is_done_outside(agent, "bash"));
  agent.outside = true;
  EXPECT_TRUE(is_done_outside(agent, "bash"));
  EXPECT_FALSE(has_machine(agent));
}

}  // namespace
}  // namespace pons::session
