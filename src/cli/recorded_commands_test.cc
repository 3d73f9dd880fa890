#include "recorded_commands.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pons::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json call(int seq, const char* tool, Json input, int asked = 3, int block = 0) {
  return {{"seq", seq},     {"type", "tool.called"}, {"asked", asked},
          {"block", block}, {"name", tool},          {"input", std::move(input)}};
}
Json bound(int seq, int by, const char* sandbox, const char* known_as = nullptr) {
  Json event = {{"seq", seq},
                {"type", "sandbox.bound"},
                {"call", by},
                {"sandbox", sandbox},
                {"template", "of " + std::string(sandbox)}};
  if (known_as != nullptr) event["known_as"] = known_as;
  return event;
}
Json end(int seq, int of, const char* outcome = "done") {
  return {{"seq", seq},         {"type", "tool.ended"}, {"call", of},
          {"outcome", outcome}, {"text", "ok"},         {"took_ms", 7}};
}

std::vector<std::string> sandboxes_of(const Commands& commands) {
  std::vector<std::string> names;
  for (const Then& command : commands.all) names.push_back(command.sandbox);
  return names;
}

TEST(RecordedCommands, AreThoseOfSandboxesAndOfTheMachine) {
  const Commands commands =
      commands_of({call(5, "sandbox_provision", {{"task_description", "x"}}), bound(6, 5, "a"),
                   end(7, 5), call(8, "sandbox_execute", {{"command", "ls"}, {"stdin", "in"}}),
                   end(9, 8), call(12, "bash", {{"command", "pwd"}}), bound(13, 12, "m"),
                   end(14, 12), call(15, "write", {{"file_path", "/f"}, {"content", "c"}}),
                   end(16, 15), call(17, "memory_write", Json::object()), end(18, 17)});
  ASSERT_EQ(commands.all.size(), 3U);
  EXPECT_THAT(sandboxes_of(commands), ElementsAre("a", "machine", "machine"));
  EXPECT_EQ(commands.templates.at("a"), "of a");
  EXPECT_EQ(commands.templates.at("machine"), "of m");
  EXPECT_EQ(commands.all[0].order.command, "ls");
  EXPECT_EQ(commands.all[0].order.input, "in");
  EXPECT_EQ(commands.all[0].order.call, "replay:8");
  EXPECT_EQ(commands.all[0].took_ms, 7);
  EXPECT_EQ(commands.all[1].shown, "pwd");
  EXPECT_THAT(commands.all[2].shown, HasSubstr(R"(write {"file_path":"/f")"));
  EXPECT_TRUE(commands.skipped.empty());
}

TEST(RecordedCommands, WhatNeverRanIsSkippedAndCounted) {
  const Commands commands =
      commands_of({call(5, "sandbox_execute", {{"command", 7}}), end(6, 5, "refused"),
                   call(7, "sandbox_execute", {{"command", "ls"}}), end(8, 7, "refused"),
                   call(9, "bash", "withheld"), end(10, 9), call(11, "bash", {{"command", "ls"}}),
                   call(12, "bash", {{"command", "sleep 9"}}), end(13, 12, "interrupted")});
  EXPECT_TRUE(commands.all.empty());
  std::vector<std::int64_t> skipped;
  for (const Skipped& call : commands.skipped) {
    skipped.push_back(call.seq);
    if (call.seq == 12) EXPECT_THAT(call.why, HasSubstr("interrupted"));
  }
  EXPECT_THAT(skipped, testing::UnorderedElementsAre(5, 7, 9, 11, 12));
}

TEST(RecordedCommands, WhatCannotBeComparedIsRunForWhatItDoes) {
  Json redacted = end(6, 5);
  redacted["redacted"] = {"TOKEN"};
  Json cut = end(8, 7);
  cut["text"] = "[the first 2.0 MiB were not kept]\nx\n[exit code 0; 1 ms]";
  Json looks_cut = end(10, 9);
  looks_cut["text"] = cut["text"];
  cut["full"] = std::string(64, 'a');
  Json plain = end(12, 11);
  plain["full"] = std::string(64, 'b');
  plain["is_error"] = true;
  const Json ls = {{"command", "ls"}};
  const Commands commands =
      commands_of({call(5, "bash", ls), redacted, call(7, "bash", ls), cut, call(9, "bash", ls),
                   looks_cut, call(11, "bash", ls), plain});
  ASSERT_EQ(commands.all.size(), 4U);
  EXPECT_THAT(commands.all[0].incomparable, HasSubstr("credential"));
  EXPECT_THAT(commands.all[1].incomparable, HasSubstr("the end of its output"));
  EXPECT_EQ(commands.all[2].incomparable, "") << "it printed so";
  EXPECT_EQ(commands.all[3].incomparable, "");
  EXPECT_EQ(commands.all[3].full, std::string(64, 'b'));
  EXPECT_TRUE(commands.all[3].is_error);
}

TEST(ReadResult, TimesAreNoPartOfWhatACommandCameTo) {
  const Told told = read_result("a\nb\n[exit code 3; 12 ms; 30.0 KiB of output, shortened]");
  EXPECT_EQ(told.output, "a\nb\n");
  EXPECT_EQ(told.ending, "exit code 3; 30.0 KiB of output, shortened");
  EXPECT_EQ(told.exit_code, 3);
  EXPECT_EQ(read_result("[exit code 0; 3 ms]"), read_result("[exit code 0; 4 s]"));
  EXPECT_NE(read_result("[exit code 0; 3 ms]"), read_result("[exit code 1; 3 ms]"));
  EXPECT_EQ(read_result("[ended by signal 9; 3 ms]").ending, "ended by signal 9");
  EXPECT_EQ(read_result("[ended by signal 9; 3 ms]").exit_code, std::nullopt);
}

TEST(ReadResult, ALineInBracketsMayBeOutput) {
  for (const char* text :
       {"[a; 3; b]", "x\n[exit code 3]", "nothing matches", "", "[exit code 0; 3 ms]\n"})
    EXPECT_EQ(read_result(text).output, text);
  EXPECT_NE(read_result("[a; 3]"), read_result("[a; 4]"));
}

TEST(RecordedCommands, GoWhereTheyWentThen) {
  const Json task = {{"task_description", "x"}};
  const Json run = {{"command", "ls"}};
  const Commands commands = commands_of(
      {call(4, "sandbox_provision", task, 3, 0), call(5, "sandbox_provision", task, 3, 2),
       bound(6, 5, "second"), end(7, 5), bound(8, 4, "first"), end(9, 4),
       call(10, "sandbox_execute", run, 3, 1), call(11, "sandbox_execute", run, 3, 3), end(12, 10),
       end(13, 11), call(16, "sandbox_execute", run, 15), end(17, 16), bound(18, 0, "c", "first"),
       call(20, "sandbox_execute", {{"command", "ls"}, {"sandbox_id", "first"}}, 19), end(21, 20)});
  EXPECT_THAT(sandboxes_of(commands), ElementsAre("first", "second", "first", "first"));
  EXPECT_EQ(commands.templates.at("first"), "of c") << "a copy's is known by the original's name";
}

}  // namespace
}  // namespace pons::cli
