#include "tool_name.h"

#include <gtest/gtest.h>

namespace pons::guest {
namespace {

TEST(ToolName, OursAreKnownInTheWordsOfEveryHarness) {
  for (const char* name :
       {"mcp__pons__look_up", "pons_look_up", "pons__look_up", "pons/look_up", "pons.look_up",
        "Tool: pons/look_up", "look_up (pons MCP Server)", "mcp_pons_look_up"})
    EXPECT_EQ(tool_on_server(name), "look_up") << name;
}

TEST(ToolName, WordsAroundOneAreNoName) {
  for (const char* name : {"", "bash", "pons_", "rm -rf pons/look_up", "pons/look_up; rm -rf /",
                           "look_up", "mcp__other__look_up", "Bash(pons_look_up)"})
    EXPECT_EQ(tool_on_server(name), "") << name;
}

TEST(ToolName, ItsOwnHaveNamesThatNoneOfOursHas) {
  EXPECT_EQ(own_name("codex", "shell command"), "codex_shell_command");
  EXPECT_EQ(plain_name(""), "unnamed");
}

}  // namespace
}  // namespace pons::guest
