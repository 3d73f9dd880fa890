#include "pons/cli/cli.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"
#include "command.h"
#include "file_copier.h"
#include "host_report.h"
#include "pons/linux/fd.h"
#include "sandbox_options.h"
#include "terminal.h"

namespace pons::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

// ---- what reaches the terminal

TEST(TerminalTest, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(printable("\x1b[2J\x07 \x7F\r\n"), "?[2J? ???");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xC2\x9B 2J \xC2\x85"), "? 2J ?");
  EXPECT_EQ(printable("\xC2\xA7 \xC3\xA4 \xE2\x80\xA6"), "\xC2\xA7 \xC3\xA4 \xE2\x80\xA6");
  EXPECT_EQ(printable("\xC2"), "\xC2");
  EXPECT_EQ(printable("two\nlines\r", LineFeeds::kKept), "two\nlines?");
}

TEST(TerminalTest, ErrorsOfManyLinesStayReadableAndHarmless) {
  CaptureStderr();
  print_error("last words:\n  \x1b]0;owned\x07");
  EXPECT_EQ(GetCapturedStderr(), "pons: last words:\n  ?]0;owned?\n");
}

TEST(TerminalTest, ColumnsAreAlignedWhateverTheirTextIs) {
  CaptureStdout();
  print_table({{"A", "LONGER", "C"},
               {"wide cell", {"x", Tone::kGood}, "1"},
               {"\xE2\x80\xA6", "\x1b[2J", "2"},
               {"short"},
               {}});
  EXPECT_EQ(GetCapturedStdout(),
            "A          LONGER  C\n"
            "wide cell  x       1\n"
            "\xE2\x80\xA6          ?[2J    2\n"
            "short\n"
            "\n");
}

TEST(TerminalTest, WithoutATerminalThereAreNoColours) {
  CaptureStdout();
  EXPECT_EQ(paint("text", Tone::kBad), "text");
  EXPECT_EQ(GetCapturedStdout(), "");
}

// ---- completion

TEST_F(CliTest, CompletionKnowsEveryCommandAndOption) {
  const std::string help = run_pons({"--help"}).out;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = run_pons({"completion", shell});
    EXPECT_EQ(script.exit_code, 0);
    for (const char* command : {"up", "down", "reload", "status", "doctor", "config", "vault",
                                "audit", "version", "completion"}) {
      EXPECT_THAT(help, HasSubstr(std::string("\n  ") + command + " "));
      EXPECT_THAT(script.out, HasSubstr(std::string(" ") + command)) << shell;
    }
    for (const char* option : {"config", "state-dir", "json", "listen"})
      EXPECT_THAT(script.out, HasSubstr(option)) << shell;
  }
  EXPECT_THAT(run_pons({"completion", "bash"}).out, HasSubstr("complete -F _pons pons\n"));
  EXPECT_THAT(run_pons({"completion", "zsh"}).out, HasSubstr("bashcompinit"));
  const Outcome unknown = run_pons({"completion", "tcsh"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.out, "");
}

// Bash itself completes, so that a quoting mistake shows.
TEST_F(CliTest, BashOffersWhatTheScriptSays) {
  write_config(run_pons({"completion", "bash"}).out, "script");
  write_config(
      "source ./script\n"
      "COMP_WORDS=(pons st); COMP_CWORD=1; _pons; echo \"${COMPREPLY[*]}\" > first\n"
      "COMP_WORDS=(pons down --js); COMP_CWORD=2; _pons; echo \"${COMPREPLY[*]}\" > second\n"
      "COMP_WORDS=(pons sandbox exec -u root work --trans); COMP_CWORD=6; _pons\n"
      "echo \"${COMPREPLY[*]}\" > third\n",
      "try");
  ASSERT_EQ(std::system("bash --norc ./try"), 0);
  EXPECT_EQ(linux::read_file("first").value_or(""), "status\n");
  EXPECT_EQ(linux::read_file("second").value_or(""), "--json\n");
  EXPECT_EQ(linux::read_file("third").value_or(""), "--transaction\n");
}

// ---- what is typed about sandboxes

TEST(SandboxOptionsTest, SizesAndTimesAreReadExactlyOrNotAtAll) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("512M"), 512U << 20);
  EXPECT_EQ(parse_size("2GiB"), 2ULL << 30);
  for (const char* wrong :
       {"", "M", "-1", "1.5G", "1X", "1GG", "18446744073709551616", "16777216T"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;
  EXPECT_EQ(parse_duration("500ms"), std::chrono::milliseconds(500));
  EXPECT_EQ(parse_duration("5m"), std::chrono::minutes(5));
  EXPECT_EQ(parse_duration("7"), std::chrono::seconds(7));
  for (const char* wrong : {"", "s", "-1s", "1y", "18446744073709551615d", "367d"})
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
}

TEST(SandboxOptionsTest, LimitsOnIoGoWithADiskOnly) {
  sandbox::CreateRequest request;
  SandboxOptions options{.io_read = "8M", .io_write = "4M"};
  options.io_read_operations = 200;
  options.io_write_operations = 100;
  const auto refused = apply(options, request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--disk"), std::string::npos);
  options.disk = "1G";
  ASSERT_TRUE(apply(options, request));
  EXPECT_EQ(request.limits.io_read_bytes_per_second, 8U << 20);
  EXPECT_EQ(request.limits.io_write_bytes_per_second, 4U << 20);
  EXPECT_EQ(request.limits.io_read_operations_per_second, 200U);
  EXPECT_EQ(request.limits.io_write_operations_per_second, 100U);
  options.io_write = "fast";
  EXPECT_NE(apply(options, request).error().message.find("--io-write fast"), std::string::npos);
}

TEST(SandboxOptionsTest, EveryLimitOfASandboxAndOfACommandCanBeTyped) {
  sandbox::CreateRequest request;
  SandboxOptions options{.tmpfs = "64M", .freeze = "5m"};
  options.inodes = 1000;
  ASSERT_TRUE(apply(options, request));
  EXPECT_EQ(request.limits.disk_bytes, 64U << 20);
  EXPECT_FALSE(request.limits.disk_upper);
  EXPECT_EQ(request.limits.disk_inodes, 1000U);
  EXPECT_EQ(request.limits.freeze_after, std::chrono::minutes(5));
  options.disk = "1G";
  EXPECT_NE(apply(options, request).error().message.find("--tmpfs"), std::string::npos);

  JobOptions command{.output_max = "1M"};
  command.open_files_max = 64;
  const auto job = make_job(command, {"true"});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->output_bytes_max, 1U << 20);
  EXPECT_EQ(job->open_files_max, 64U);
  command.output_max = "much";
  EXPECT_NE(make_job(command, {"true"}).error().message.find("--output-max much"),
            std::string::npos);
}

TEST(SandboxOptionsTest, OnlyNamesRightBelowADirectoryAreEntriesOfIt) {
  EXPECT_EQ(entry_name("/d", "/d/a").value(), "a");
  EXPECT_EQ(entry_name("/", "/a").value(), "a");
  EXPECT_EQ(entry_name("/d/", "/d/a").value(), "a");
  EXPECT_EQ(entry_name("/d", "/d/..a").value(), "..a");
  EXPECT_EQ(entry_name("/d", "/d").value(), std::nullopt);
  for (const char* hostile :
       {"/d/..", "/d/.", "/d/../e", "/e", "/da", "d/a", "/d//a", "/d/a/b", ""})
    EXPECT_FALSE(entry_name("/d", hostile)) << hostile;
}

// ---- usage

TEST_F(CliTest, AMistypedCommandGetsASuggestionAndTheCodeForWrongUsage) {
  const Outcome mistyped = run_pons({"stauts"});
  EXPECT_EQ(mistyped.exit_code, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("did you mean \"status\"?"));
  const Outcome hopeless = run_pons({"\x1b[2Jxxxxxxxxxx"});
  EXPECT_EQ(hopeless.exit_code, 2);
  EXPECT_THAT(hopeless.err, AllOf(HasSubstr("--help"), Not(HasSubstr("\x1b"))));
  EXPECT_EQ(run_pons({}).exit_code, 2);
  EXPECT_EQ(run_pons({"status", "--no-such-option"}).exit_code, 2);
  EXPECT_EQ(run_pons({"--version"}).exit_code, 0);
}

TEST_F(CliTest, WordsThatAreNoTextAreRefusedAndNotChanged) {
  const auto task = run_pons({"run", "before \xFF behind"});
  EXPECT_EQ(task.exit_code, 2);
  EXPECT_EQ(task.err, "pons: TASK is not UTF-8 text; nothing was done\n");
  const auto option = run_pons({"sessions", "send", "ses_1", "hi", "--project", "\xC3"});
  EXPECT_EQ(option.exit_code, 2);
  EXPECT_THAT(option.err, HasSubstr("--project is not UTF-8 text"));
  const auto file = run_pons({"backup", "/nowhere/\xFF"});
  EXPECT_EQ(file.exit_code, 1) << "a file may be called so";
  EXPECT_THAT(file.err, Not(HasSubstr("UTF-8")));
}

TEST_F(CliTest, WithoutARunningPonsTheAdviceIsToStartOne) {
  for (const char* command : {"status", "down", "reload"}) {
    const Outcome outcome = run_pons({command, "--state-dir", scratch_ + "/none"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("not running"), HasSubstr("pons up")));
  }
}

// ---- configuration

TEST_F(CliTest, OptionsOverrideTheFileAndTheFileTheDefaults) {
  write_config("state_dir: /srv/from-file\nlisten: 127.0.0.1:1111\n");
  const auto plain = load_config({});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->config.state_dir, "/srv/from-file");
  EXPECT_EQ(plain->config.listen.port, 1111);
  const auto overridden = load_config({.state_dir = "/srv/option", .listen = "[::1]:2222"});
  ASSERT_TRUE(overridden);
  EXPECT_EQ(overridden->config.state_dir, "/srv/option");
  EXPECT_EQ(overridden->config.listen.address, "::1");
  EXPECT_EQ(overridden->config.listen.port, 2222);
  const auto half = load_config({.listen = "127.0.0.1:3333"});
  ASSERT_TRUE(half);
  EXPECT_EQ(half->config.state_dir, "/srv/from-file");
}

TEST_F(CliTest, AFileThatIsNamedIsTheOnlyOneRead) {
  write_config("state_dir: /srv/default-place\n");
  write_config("listen: 127.0.0.1:4444\n", "other.yaml");
  const auto loaded = load_config({.config_file = "other.yaml"});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->config.listen.port, 4444);
  EXPECT_NE(loaded->config.state_dir, "/srv/default-place");
  CaptureStderr();
  EXPECT_FALSE(load_config({.config_file = "missing.yaml"}));
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("missing.yaml"));
}

TEST_F(CliTest, OverridesGoThroughTheChecksOfTheFile) {
  const Common wrong[] = {
      {.state_dir = "/with\nline"},  {.state_dir = "/x\nlisten: evil"}, {.listen = "nonsense"},
      {.listen = "127.0.0.1:99999"}, {.listen = "example.com:80"},      {.state_dir = "/bad-\xFF"},
      {.listen = "\xC3\x28:1"},
  };
  for (const Common& common : wrong) {
    CaptureStderr();
    EXPECT_FALSE(load_config(common)) << common.state_dir << common.listen;
    EXPECT_NE(GetCapturedStderr(), "");
  }
}

TEST_F(CliTest, ARelativeStateDirectoryMeansFromHere) {
  const auto here = std::filesystem::current_path();
  EXPECT_EQ(load_config({.state_dir = "state"})->config.state_dir, here / "state");
  EXPECT_EQ(load_config({.state_dir = "./a/../b"})->config.state_dir, here / "b");
}

TEST_F(CliTest, ABrokenFileStopsEveryCommand) {
  write_config("lisen: 127.0.0.1:1\n");
  for (const char* command : {"up", "down", "status", "doctor"}) {
    const Outcome outcome = run_pons({command});
    EXPECT_EQ(outcome.exit_code, 1) << command;
    EXPECT_THAT(outcome.err, HasSubstr("did you mean \"listen\"?")) << command;
  }
}

// ---- answers of a Pons that is in an attacker's hands

class HostileAnswerTest : public AnsweredCliTest {};

TEST_F(HostileAnswerTest, AnUnexpectedShapeIsAnErrorAndNotTheEndOfTheProgram) {
  for (const char* body : {"[]", "{}", "null", "{\"roles\":7}", "{\"ready\":\"yes\"}",
                           "{\"roles\":[[]],\"ready\":true}", "{\"roles\":[{\"pid\":\"x\"}]}",
                           "not json", "", "{\"roles\":{},\"version\":[]}"}) {
    const Outcome outcome = run_against(200, body, {"status"});
    EXPECT_EQ(outcome.exit_code, 1) << body;
    EXPECT_NE(outcome.err, "") << body;
  }
}

TEST_F(HostileAnswerTest, ARefusalOfAnyShapeIsShown) {
  for (const char* body : {"{\"error\":\"text\"}", "{\"error\":{\"message\":7}}", "{\"error\":[]}",
                           "[1]", "{\"error\":{\"message\":\"\\u001b[2J\"}}"}) {
    const Outcome outcome = run_against(500, body, {"status"});
    EXPECT_EQ(outcome.exit_code, 1) << body;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("pons: "), Not(HasSubstr("\x1b")))) << body;
  }
  EXPECT_THAT(run_against(403, "{\"error\":{\"message\":\"not you\"}}", {"status"}).err,
              HasSubstr("not you"));
}

TEST_F(HostileAnswerTest, TerminalSequencesInAStatusAreNotObeyed) {
  const Outcome outcome = run_against(
      200,
      R"({"version":"\u001b[2J","ready":true,"listen":"\u001b]0;x\u0007","state_dir":"/x\r",)"
      R"("roles":[{"role":"\u001b[31m","state":"ready","last_exit":"\u009b2J"}]})",
      {"status"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xC2\x9B"))));
}

TEST(HostReportTest, WhatIsFatalIsSaidWithItsCost) {
  const HostReport report = examine_host();
  ASSERT_FALSE(report.findings.empty());
  bool fatal = false;
  for (const HostFinding& finding : report.findings) {
    EXPECT_FALSE(finding.name.empty() || finding.found.empty());
    EXPECT_EQ(finding.cost.empty(), finding.grade == HostFinding::Grade::kGood) << finding.name;
    fatal |= finding.grade == HostFinding::Grade::kFatal;
  }
  EXPECT_EQ(report.sufficient, !fatal);
  EXPECT_EQ(to_json(report).size(), report.findings.size());
}

}  // namespace
}  // namespace pons::cli
