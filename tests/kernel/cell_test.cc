// The real program as PID 1, driven as the warden drives it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>

#include "cell_client.h"
#include "pons/cell/image.h"

namespace pons::cell {
namespace {

using testing::HasSubstr;
using testing::Not;

class CellTest : public testing::Test {
 protected:
  CellTest() : client(cell.socket_path()) {
    EXPECT_EQ(client.call(Op::kPing).header.status, Status::kDone);
  }

  void claim() { ASSERT_EQ(client.claim().header.status, Status::kDone); }
  // Takes the waiting shell away, so that the next line starts one of its own.
  void use_up_shell() { client.run_line("use up the shell", ":"); }

  JobOptions program(std::vector<std::string> argv, std::uint32_t flags = 0) {
    JobOptions options{.argv = std::move(argv), .user = {}, .directory = {}, .environment = {}};
    options.start.flags = flags;
    return options;
  }

  bool is_running(const std::string& marker) {
    const Outcome found = client.run(
        "look for " + marker + std::to_string(looks_++),
        program({"sh", "-c", "grep -lz -- \"$1\" /proc/[0-9]*/cmdline | grep -v \"/$$/\" | wc -l",
                 "sh", "^" + marker}));
    return found.output != "0\n";
  }

  // Who was killed may need a moment to be gone.
  bool is_gone(const std::string& marker) {
    for (int i = 0; i < 100; ++i) {
      if (!is_running(marker)) return true;
      usleep(50'000);
    }
    return false;
  }

  CellUnderTest cell;
  CellClient client;
  int looks_ = 0;
};

TEST_F(CellTest, ProgramIsSmallAndIdleCellCostsLittle) {
  EXPECT_LT(cell_image().size(), 128U << 10);
  EXPECT_LT(cell.private_kilobytes(), 80U);
}

TEST_F(CellTest, NoJobRunsBeforeTheClaim) {
  EXPECT_EQ(client.run("early", program({"true"})).status, Status::kNotClaimed);
}

TEST_F(CellTest, ClaimSetsTheNameOnceAndTheSameAgainChangesNothing) {
  claim();
  claim();
  EXPECT_EQ(client.claim("root").header.status, Status::kOtherClaim);
  EXPECT_EQ(client.run("name", program({"uname", "-n"})).output, "cell-under-test\n");
}

TEST_F(CellTest, ExitCodesAndSignalsAreTold) {
  claim();
  for (const int code : {0, 1, 42, 255}) {
    const auto outcome = client.run("exit" + std::to_string(code),
                                    program({"sh", "-c", "exit " + std::to_string(code)}));
    EXPECT_EQ(outcome.state.ended, Ended::kExit);
    EXPECT_EQ(outcome.state.code, code);
  }
  const auto killed = client.run("killed", program({"sh", "-c", "kill -9 $$"}));
  EXPECT_EQ(killed.state.ended, Ended::kSignal);
  EXPECT_EQ(killed.state.code, SIGKILL);
}

TEST_F(CellTest, BothStreamsAreKeptApart) {
  claim();
  const auto outcome = client.run("both", program({"sh", "-c", "echo out; echo err >&2"}));
  EXPECT_EQ(outcome.output, "out\n");
  EXPECT_EQ(outcome.error, "err\n");
}

TEST_F(CellTest, JobRunsAsTheUserWithItsGroupsAndNothingElse) {
  claim();
  const auto outcome = client.run(
      "who",
      program({"sh", "-c",
               "id -u; id -g; id -G; pwd; echo $HOME $USER; umask; ls /proc/self/fd | wc -l"}));
  EXPECT_EQ(outcome.output,
            "1000\n1000\n1000 2000\n" + cell.home() + "\n" + cell.home() + " worker\n0022\n4\n");
  auto as_root = program({"sh", "-c", "id -u; grep CapBnd /proc/self/status"});
  as_root.user = "root";
  const auto root = client.run("root", as_root);
  EXPECT_THAT(root.output, testing::StartsWith("0\n"));
  const std::uint64_t bounding =
      std::stoull(root.output.substr(root.output.find('\t') + 1), nullptr, 16);
  EXPECT_EQ(bounding >> 21 & 1, 0U) << "CAP_SYS_ADMIN is within reach";
  auto by_number = program({"id", "-u"});
  by_number.user = "4242";
  EXPECT_EQ(client.run("number", by_number).output, "4242\n");
}

TEST_F(CellTest, CellGivesUpSysAdminAtTheClaim) {
  claim();
  std::ifstream status("/proc/" + std::to_string(cell.pid()) + "/status");
  std::string word;
  int seen = 0;
  while (status >> word) {
    if (word != "CapPrm:" && word != "CapEff:" && word != "CapBnd:" && word != "CapInh:") continue;
    status >> word;
    EXPECT_EQ(std::stoull(word, nullptr, 16) >> 21 & 1, 0U);
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

TEST_F(CellTest, FailuresNameTheirStep) {
  claim();
  const auto missing = client.run("missing", program({"no-such-program"}));
  EXPECT_EQ(missing.status, Status::kFailed);
  EXPECT_EQ(missing.step, Step::kExecute);
  EXPECT_EQ(missing.os_error, ENOENT);
  auto nobody = program({"true"});
  nobody.user = "nobody-here";
  EXPECT_EQ(client.run("nobody", nobody).step, Step::kFindUser);
  auto nowhere = program({"true"});
  nowhere.directory = "/no/such/place";
  EXPECT_EQ(client.run("nowhere", nowhere).step, Step::kDirectory);
  EXPECT_EQ(client.list().size(), 0U) << "a failed start leaves a job behind";
}

TEST_F(CellTest, JobEnvironmentIsOnTopOfTheClaims) {
  ASSERT_EQ(client.claim("worker", "h", {"A=claim", "B=claim"}).header.status, Status::kDone);
  auto options = program({"sh", "-c", "echo $A $B $C"});
  options.environment = {"B=job", "C=it's \"quoted\" $x\n`y`"};
  EXPECT_EQ(client.run("plain", options).output, "claim job it's \"quoted\" $x `y`\n");
  options.argv = {"echo $A $B; printf %s \"$C\""};
  options.start.flags = kShellLine;
  EXPECT_EQ(client.run("shell", options).output, "claim job\nit's \"quoted\" $x\n`y`");
}

TEST_F(CellTest, InputIsTakenOnceByOffset) {
  claim();
  ASSERT_EQ(client.start("cat", program({"cat"}, kInputOpen)).header.status, Status::kDone);
  EXPECT_EQ(client.write("cat", 0, "hello ").header.status, Status::kDone);
  client.write("cat", 0, "hello ");
  client.write("cat", 3, "lo world");
  client.write("cat", 500, "from the future");
  client.call(Op::kCloseInput, "cat");
  EXPECT_EQ(client.read_to_end("cat").output, "hello world");
  EXPECT_EQ(client.write("cat", 11, "more").header.status, Status::kInputClosed);
}

TEST_F(CellTest, WriteWaitsForAReaderAndThenContinues) {
  claim();
  auto options = program({"sh", "-c", "read go < go; cat | wc -c"}, kInputOpen);
  mkfifo((cell.home() + "/go").c_str(), 0666);
  chmod((cell.home() + "/go").c_str(), 0666);
  ASSERT_EQ(client.start("slow", options).header.status, Status::kDone);
  const std::string bytes(100'000, 'x');
  std::uint64_t taken = 0;
  std::memcpy(&taken, client.write("slow", 0, bytes).payload.data(), sizeof taken);
  ASSERT_LT(taken, bytes.size());
  const auto waiting =
      client.send(Op::kWrite, "slow", bytes_of(Write{.offset = taken}).append(bytes.substr(taken)));
  EXPECT_FALSE(client.receive(waiting, 200).has_value());
  client.run("go", program({"sh", "-c", "echo > go"}));
  while (taken < bytes.size()) {
    const auto reply = taken == 65536
                           ? client.receive(waiting)
                           : std::optional(client.write("slow", taken, bytes.substr(taken)));
    ASSERT_TRUE(reply.has_value());
    std::memcpy(&taken, reply->payload.data(), sizeof taken);
  }
  client.call(Op::kCloseInput, "slow");
  EXPECT_EQ(client.read_to_end("slow").output, "100000\n");
}

TEST_F(CellTest, EmptyInputIsAtItsEnd) {
  claim();
  EXPECT_EQ(client.run("cat", program({"cat"})).state.code, 0);
  EXPECT_EQ(client.run_line("line", "cat; echo done").output, "done\n");
}

TEST_F(CellTest, TerminalIsRealAndCanBeResized) {
  claim();
  auto options = program({"sh", "-c", "tty; stty size; read x; stty size; echo got $x"},
                         kTerminal | kInputOpen);
  options.start.rows = 30;
  options.start.columns = 100;
  ASSERT_EQ(client.start("tty", options).header.status, Status::kDone);
  std::string seen;
  while (seen.find("30 100") == std::string::npos) {
    const auto part = client.read_once("tty", seen.size(), 0, 5'000);
    ASSERT_FALSE(part.output.empty());
    seen += part.output;
  }
  EXPECT_THAT(seen, HasSubstr("/dev/pts/"));
  EXPECT_EQ(
      client.call(Op::kResize, "tty", bytes_of(Resize{.rows = 50, .columns = 120})).header.status,
      Status::kDone);
  client.write("tty", 0, "line\n");
  const auto outcome = client.read_to_end("tty");
  EXPECT_THAT(outcome.output, HasSubstr("50 120"));
  EXPECT_THAT(outcome.output, HasSubstr("got line"));
  EXPECT_EQ(outcome.state.ended, Ended::kExit);
}

TEST_F(CellTest, JobSurvivesAReconnectAndIsReadFromAnyOffset) {
  claim();
  auto first = std::make_unique<CellClient>(cell.socket_path());
  ASSERT_EQ(first
                ->start("long",
                        program({"sh", "-c", "printf 0123456789; read x; printf abc"}, kInputOpen))
                .header.status,
            Status::kDone);
  first.reset();
  CellClient second(cell.socket_path());
  EXPECT_EQ(second.read_once("long", 4, 0, 5'000).output, "456789");
  second.write("long", 0, "\n");
  EXPECT_EQ(second.read_to_end("long").output, "0123456789abc");
}

TEST_F(CellTest, SameNameNeverStartsTwice) {
  claim();
  const auto options = program({"sh", "-c", "echo x >> count; cat count"});
  EXPECT_EQ(client.run("once", options).output, "x\n");
  EXPECT_EQ(client.run("once", options).output, "x\n");
  EXPECT_EQ(client.run("other", options).output, "x\nx\n");
}

TEST_F(CellTest, FloodOfOutputKeepsItsEndInBoundedMemory) {
  claim();
  auto options = program({"sh", "-c", "head -c 100000000 /dev/zero; echo; echo the end"});
  options.start.buffer_bytes = 1 << 20;
  const auto outcome = client.run("flood", options);
  EXPECT_EQ(outcome.state.output_end, 100000009U);
  EXPECT_EQ(outcome.state.output_end - outcome.state.output_kept, 1U << 20);
  EXPECT_THAT(client.read_once("flood", 100000000, 0).output, "\nthe end\n");
  EXPECT_LT(cell.private_kilobytes(), 1024U);
}

// Slower than the job writes, but never away.
TEST_F(CellTest, ReaderThatKeepsComingLosesNothing) {
  claim();
  std::string expected;
  for (int i = 1; i <= 200000; ++i) expected += std::to_string(i) + "\n";
  const auto read_slowly = [&](const char* name) {
    std::string output;
    for (;;) {
      const auto part = client.read_once(name, output.size(), 0, 5'000);
      EXPECT_LE(part.state.output_kept, output.size());
      if (part.status != Status::kDone || part.state.output_kept > output.size()) return output;
      output += part.output;
      if (part.state.ended != Ended::kRunning && part.output.empty()) return output;
      usleep(2'000);
    }
  };
  auto options = program({"sh", "-c", "seq 200000"});
  options.start.buffer_bytes = 64 << 10;
  ASSERT_EQ(client.start("pipe", options).header.status, Status::kDone);
  EXPECT_TRUE(read_slowly("pipe") == expected);
  options.start.flags = kTerminal;
  options.argv = {"sh", "-c", "stty -opost; seq 200000"};
  ASSERT_EQ(client.start("terminal", options).header.status, Status::kDone);
  EXPECT_TRUE(read_slowly("terminal") == expected);
}

TEST_F(CellTest, JobThatNobodyReadsRunsToItsEnd) {
  claim();
  auto options = program({"sh", "-c", "seq 200000; seq 200000 >&2; touch done"});
  options.start.buffer_bytes = 64 << 10;
  ASSERT_EQ(client.start("alone", options).header.status, Status::kDone);
  for (int i = 0; i < 6000 && !std::filesystem::exists(cell.home() + "/done"); ++i) {
    // Who asks for the end alone is no reader.
    if (i % 100 == 0) client.read_once("alone", UINT64_MAX, UINT64_MAX, 0, 0);
    usleep(10'000);
  }
  const auto end = client.read_once("alone", UINT64_MAX, UINT64_MAX, 5'000);
  EXPECT_EQ(end.state.ended, Ended::kExit);
  EXPECT_EQ(end.state.output_end, end.state.error_end);
  EXPECT_EQ(end.state.output_end - end.state.output_kept, 64U << 10);
  EXPECT_THAT(client.read_once("alone", end.state.output_end - 7, end.state.error_end).output,
              "200000\n");
}

TEST_F(CellTest, LosslessJobWaitsForItsReader) {
  claim();
  auto options = program({"sh", "-c", "seq 200000"}, kLossless);
  options.start.buffer_bytes = 64 << 10;
  std::string expected;
  for (int i = 1; i <= 200000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_TRUE(client.run("seq", options).output == expected);
}

TEST_F(CellTest, LastBytesComeBeforeTheEnd) {
  claim();
  for (int i = 0; i < 50; ++i) {
    const auto outcome =
        client.run("last" + std::to_string(i),
                   program({"sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x; printf END"}));
    ASSERT_EQ(outcome.output.size(), 60003U);
  }
}

TEST_F(CellTest, JobHasNotEndedWhileItsBytesAreStillInThePipe) {
  claim();
  auto options = program({"sh", "-c", "head -c 60000 /dev/zero; touch done"}, kLossless);
  options.start.buffer_bytes = 4096;
  ASSERT_EQ(client.start("held", options).header.status, Status::kDone);
  for (int i = 0; i < 1000 && !std::filesystem::exists(cell.home() + "/done"); ++i) usleep(10'000);
  usleep(50'000);
  std::uint64_t offset = 0;
  for (Ended ended = Ended::kRunning; ended == Ended::kRunning;) {
    const auto part = client.read_once("held", offset, 0, 5'000);
    ASSERT_TRUE(part.state.ended == Ended::kRunning || part.state.output_end == 60000U);
    offset += part.output.size();
    ended = part.state.ended;
  }
}

TEST_F(CellTest, BackgroundProcessDoesNotKeepTheJobAndIsStillHeard) {
  claim();
  const auto outcome =
      client.run("back", program({"sh", "-c", "mkfifo go; (read x < go; echo later) & echo now"}));
  EXPECT_EQ(outcome.output, "now\n");
  EXPECT_EQ(outcome.state.ended, Ended::kExit);
  client.run("go", program({"sh", "-c", "echo > go"}));
  std::string later;
  for (int i = 0; i < 500 && later.empty(); ++i) {
    later = client.read_once("back", 4, 0).output;
    usleep(10'000);
  }
  EXPECT_EQ(later, "later\n");
}

TEST_F(CellTest, TimeoutEndsAJobThatIgnoresSigterm) {
  claim();
  auto options = program({"sh", "-c", "trap '' TERM; echo on; while :; do sleep 1; done"});
  options.start.timeout_ms = 2'000;
  const auto outcome = client.run("stubborn", options);
  EXPECT_EQ(outcome.state.ended, Ended::kTimeout);
  EXPECT_EQ(outcome.output, "on\n");
}

TEST_F(CellTest, TimeoutMayKillWithoutAWarning) {
  claim();
  auto options =
      program({"sh", "-c", "trap 'echo warned' TERM; echo on; while :; do sleep 0.05; done"},
              kKillAtTimeout);
  options.start.timeout_ms = 2'000;
  const auto outcome = client.run("warned", options);
  EXPECT_EQ(outcome.state.ended, Ended::kTimeout);
  EXPECT_EQ(outcome.output, "on\n");
}

TEST_F(CellTest, TimeoutReachesWhoLeftTheGroupAndTheSession) {
  claim();
  auto options = program({"sh", "-c",
                          "trap '' TERM; setsid sleep 987654 & setsid sh -c 'sleep 987654; :' & "
                          "echo on; wait; wait; sleep 60"});
  options.start.timeout_ms = 300;
  EXPECT_EQ(client.run("escape", options).state.ended, Ended::kTimeout);
  EXPECT_TRUE(is_gone("sleep"));
}

TEST_F(CellTest, WhoLeftTheSessionIsKilledAlsoWhenTheFirstProcessObeys) {
  claim();
  auto options = program(
      {"sh", "-c", "setsid sh -c 'trap \"\" TERM; echo on; sleep 975319; sleep 975319' & wait"});
  options.start.timeout_ms = 500;
  EXPECT_EQ(client.run("escape", options).state.ended, Ended::kTimeout);
  EXPECT_TRUE(is_gone("sleep"));
}

TEST_F(CellTest, OutputOfAllJobsTogetherHasABound) {
  client.claim("worker", "sandbox", {}, 16 << 10);
  const auto flood = program({"head", "-c", "8000000", "/dev/zero"});
  for (int i = 0; i < 6; ++i) {
    const std::string name = "flood" + std::to_string(i);
    EXPECT_EQ(client.run(name, flood).output.size(), 8'000'000U);
  }
  uint64_t kept = 0;
  for (const JobState& state : client.list()) kept += state.output_end - state.output_kept;
  EXPECT_LE(kept, 16ULL << 20);
  // The latest is there whole, and of the first it is known how much it was.
  EXPECT_EQ(client.read_once("flood5", 0, 0).state.output_kept, 0U);
  const auto first = client.read_once("flood0", 0, 0).state;
  EXPECT_EQ(first.output_kept, first.output_end);
  EXPECT_EQ(first.output_end, 8'000'000U);
}

TEST_F(CellTest, JobsThatRunDoNotPassTheBoundEither) {
  client.claim("worker", "sandbox", {}, 4 << 10);
  constexpr int kJobs = 12;
  for (int i = 0; i < kJobs; ++i)
    client.start("run" + std::to_string(i),
                 program({"sh", "-c", "head -c 3000000 /dev/zero; sleep 864213"}));
  for (int i = 0; i < kJobs; ++i) {
    const std::string name = "run" + std::to_string(i);
    uint64_t end = 0;
    for (int tries = 0; tries < 1000 && end < 3'000'000; ++tries) {
      const auto part = client.read_once(name, end, 0, 1000);
      end = part.state.output_end;
    }
    EXPECT_EQ(end, 3'000'000U) << name;
  }
  uint64_t kept = 0;
  for (const JobState& state : client.list()) kept += state.output_end - state.output_kept;
  EXPECT_LE(kept, (4ULL << 20) + kJobs * (64 << 10));
}

TEST_F(CellTest, AServerLeftInTheBackgroundOutlivesTheMemoryOfItsJob) {
  claim();
  client.run("server",
             program({"sh", "-c",
                      "mkfifo go; (read x < go; for i in 1 2 3; do echo on || exit; done; "
                      "echo > gone) & echo started"}));
  EXPECT_EQ(client.call(Op::kForget, "server").header.status, Status::kDone);
  EXPECT_EQ(client
                .run("ask", program({"sh", "-c",
                                     "echo > go; "
                                     "for i in $(seq 500); do test -e gone && break; sleep 0.01; "
                                     "done; test -e gone && echo lived"}))
                .output,
            "lived\n");
}

TEST_F(CellTest, JobsThatNobodyWritesToMakeRoomFirst) {
  claim();
  client.run("server", program({"sh", "-c", "sleep 753197 & echo started"}));
  for (std::uint32_t i = 0; i < kJobsMax; ++i)
    client.run("short" + std::to_string(i), program({"true"}));
  EXPECT_EQ(client.read_once("server", 0, 0).output, "started\n");
  EXPECT_EQ(client.read_once("short0", 0, 0).status, Status::kNoSuchJob);
}

TEST_F(CellTest, TooMuchOutputIsALimit) {
  claim();
  auto options = program({"sh", "-c", "yes"});
  options.start.output_bytes_max = 100'000;
  const auto outcome = client.run("yes", options);
  EXPECT_EQ(outcome.state.ended, Ended::kLimit);
  EXPECT_EQ(outcome.output.size(), 100'000U);
}

TEST_F(CellTest, SignalsReachTheFirstProcessOrTheGroup) {
  claim();
  client.start("group", program({"sh", "-c", "sleep 876543; echo not reached"}));
  EXPECT_EQ(client.signal("group", SIGTERM, Reach::kGroup).header.status, Status::kDone);
  EXPECT_EQ(client.read_to_end("group").state.code, SIGTERM);
  EXPECT_EQ(client.signal("group", SIGTERM, Reach::kGroup).header.status, Status::kFailed);
  EXPECT_TRUE(is_gone("sleep"));
}

TEST_F(CellTest, AJobIsKilledWhereverItsProcessesHaveMoved) {
  claim();
  // A shell that makes a session of its own for what it starts, as harnesses do.
  client.start("job", program({"sh", "-c", "setsid sh -c 'sleep 876541; true' & wait"}));
  client.start("other", program({"sleep", "876542"}));
  for (int i = 0; i < 100 && !is_running("876541"); ++i) usleep(50'000);
  EXPECT_EQ(client.signal("job", SIGKILL, Reach::kJob).header.status, Status::kDone);
  EXPECT_EQ(client.read_to_end("job").state.code, SIGKILL);
  EXPECT_TRUE(is_gone("876541"));
  EXPECT_TRUE(is_running("876542"));
  EXPECT_EQ(client.signal("job", SIGKILL, Reach::kJob).header.status, Status::kFailed);
}

TEST_F(CellTest, SignalsFromInsideDoNothingToTheCell) {
  claim();
  auto options = program(
      {"sh", "-c", "for s in 1 2 3 6 9 11 13 15 17 19 20 31; do kill -$s 1; done; echo alive"});
  options.user = "root";
  EXPECT_EQ(client.run("signals", options).output, "alive\n");
  EXPECT_EQ(client.call(Op::kPing).header.status, Status::kDone);
  EXPECT_TRUE(cell.is_alive());
}

TEST_F(CellTest, ZombieStormIsSweptUp) {
  claim();
  EXPECT_EQ(
      client
          .run("storm",
               program({"sh", "-c", "i=0; while [ $i -lt 3000 ]; do (true &); i=$((i+1)); done"}))
          .state.code,
      0);
  const auto left = client.run(
      "left", program({"sh", "-c", "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"}));
  EXPECT_LT(std::stoi(left.output), 5);
}

TEST_F(CellTest, FullTableRefusesAndEndedJobsMakeRoom) {
  claim();
  for (std::uint32_t i = 0; i < kJobsMax; ++i) {
    ASSERT_EQ(
        client.start("sleeper" + std::to_string(i), program({"sleep", "765432"})).header.status,
        Status::kDone);
  }
  EXPECT_EQ(client.start("one more", program({"true"})).header.status, Status::kTableFull);
  EXPECT_EQ(client.list().size(), kJobsMax);
  client.signal("sleeper7", SIGKILL, Reach::kProcess);
  client.read_to_end("sleeper7");
  EXPECT_EQ(client.run("one more", program({"echo", "in"})).output, "in\n");
  EXPECT_EQ(client.read_once("sleeper7", 0, 0).status, Status::kNoSuchJob);
}

TEST_F(CellTest, ForgottenJobsLeaveNoDescriptors) {
  claim();
  use_up_shell();
  client.call(Op::kForget, "use up the shell");
  const auto before = cell.descriptors();
  for (int i = 0; i < 20; ++i) {
    client.run("job",
               program({"sh", "-c", "seq 20000; seq 20000 >&2"}, i % 2 == 0 ? kInputOpen : 0U));
    EXPECT_EQ(client.call(Op::kForget, "job").header.status, Status::kDone);
  }
  client.run("no", program({"no-such-program"}));
  EXPECT_EQ(cell.descriptors(), before);
}

TEST_F(CellTest, SlowReaderHoldsUpNobody) {
  claim();
  client.run("much", program({"head", "-c", "4000000", "/dev/zero"}));
  CellClient slow(cell.socket_path());
  for (int i = 0; i < 2000; ++i) {
    Read read{.output_offset = 0, .error_offset = 0, .wait_ms = 0, .bytes_max = kMessageBytesMax};
    const RequestHeader header{
        .magic = kMagic, .version = kVersion, .op = Op::kRead, .id = 7, .job = "much"};
    if (!slow.send_raw(bytes_of(header) + bytes_of(read))) break;
  }
  EXPECT_EQ(client.run("other", program({"echo", "fine"})).output, "fine\n");
  EXPECT_LT(cell.private_kilobytes(), 2048U);
}

TEST_F(CellTest, GarbageIsRefusedAndChangesNothing) {
  claim();
  CellClient hostile(cell.socket_path());
  std::srand(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes(static_cast<std::size_t>(1 + std::rand() % 400), '\0');
    for (char& c : bytes) c = static_cast<char>(std::rand());
    if (i % 2 == 0 && bytes.size() >= sizeof(RequestHeader)) {
      RequestHeader header{
          .magic = kMagic, .version = kVersion, .op = Op(i % 12), .id = 1'000'000, .job = "x"};
      std::memcpy(bytes.data(), &header, sizeof header);
    }
    if (!hostile.send_raw(bytes)) break;
    hostile.receive(~0ULL, 0);
  }
  CellClient truncated(cell.socket_path());
  truncated.send_raw(std::string(kMessageBytesMax + 100, 'x'));
  EXPECT_EQ(truncated.receive(0x7878787878787878ULL)->header.status, Status::kBadRequest);
  EXPECT_EQ(client.run("after", program({"echo", "fine"})).output, "fine\n");
  EXPECT_EQ(client.list().size(), 1U);
}

TEST_F(CellTest, NinthConnectionIsTurnedAwayAndAClosedOneMakesRoom) {
  std::vector<std::unique_ptr<CellClient>> others;
  for (int i = 0; i < 7; ++i) {
    others.push_back(std::make_unique<CellClient>(cell.socket_path()));
    EXPECT_EQ(others.back()->call(Op::kPing).header.status, Status::kDone);
  }
  CellClient ninth(cell.socket_path());
  EXPECT_FALSE(ninth.receive(ninth.send(Op::kPing, {}, {}), 5'000).has_value());
  others.pop_back();
  client.call(Op::kPing);
  CellClient again(cell.socket_path());
  EXPECT_EQ(again.call(Op::kPing).header.status, Status::kDone);
}

TEST(CellInAUserNamespace, RootInsideHasNoHoldOnTheCell) {
  CellUnderTest cell(200'000);
  CellClient client(cell.socket_path());
  ASSERT_EQ(client.call(Op::kPing).header.status, Status::kDone);
  ASSERT_EQ(client.claim().header.status, Status::kDone);
  const auto first =
      client.run_line("first", "id -u; id -G; uname -n; grep CapEff /proc/self/status");
  EXPECT_EQ(first.output, "1000\n1000 2000\ncell-under-test\nCapEff:\t0000000000000000\n");
  EXPECT_LT(first.state.pid, 5U) << "the waiting shell was not used";
  JobOptions options{
      .argv = {"sh", "-c",
               "id -u; cat /proc/1/maps /proc/1/exe /proc/1/environ; ls /proc/1/fd/; "
               "kill -9 1; kill -19 1; echo end"},
      .user = "root",
      .directory = {},
      .environment = {}};
  EXPECT_EQ(client.run("root", options).output, "0\nend\n");
  EXPECT_EQ(client.call(Op::kPing).header.status, Status::kDone);
}

// What a program says that reads two lines.
Outcome run_with_input(CellClient* client, const std::string& job, std::vector<std::string> argv,
                       std::vector<std::string> environment = {}) {
  JobOptions options{
      .argv = std::move(argv), .user = {}, .directory = {}, .environment = std::move(environment)};
  options.start.flags = kInputOpen;
  const auto begin = outcome_of(client->start(job, options));
  client->write(job, 0, "first\nsecond\n");
  client->call(Op::kCloseInput, job);
  return client->read_to_end(job, begin);
}

void expect_same_end(const Outcome& waiting, const Outcome& plain) {
  EXPECT_LT(waiting.state.pid, 5U) << "the waiting shell was not used";
  EXPECT_EQ(waiting.output, plain.output);
  EXPECT_EQ(waiting.state.ended, plain.state.ended);
  EXPECT_EQ(waiting.state.code, plain.state.code);
}

class WaitingShellTest : public testing::TestWithParam<const char*> {};

TEST_P(WaitingShellTest, BehavesLikeAPlainShell) {
  CellUnderTest cell;
  CellClient client(cell.socket_path());
  ASSERT_EQ(client.call(Op::kPing).header.status, Status::kDone);
  ASSERT_EQ(client.claim("worker", "h", {"GREETING=it's me"}).header.status, Status::kDone);
  const auto waiting = client.run_line("waiting", GetParam(), "first\nsecond\n");
  const auto plain = run_with_input(&client, "plain", {"sh", "-c", GetParam()});
  expect_same_end(waiting, plain);
  EXPECT_EQ(waiting.error.empty(), plain.error.empty()) << waiting.error << plain.error;
}

const auto kLines = testing::Values(
    "echo hi", "exit 3", "false", "echo $0 $#", "cat", "read a; echo \"$a\"; cat", "if then",
    "echo 'unterminated", "exec echo replaced", "cat <<END\nhere $0\nEND",
    "(sleep 100 >/dev/null 2>&1 &) ; echo now", "echo \"$GREETING\"", "pwd; echo $PWD",
    "env | grep -v ^_= | sort", "kill -9 $$", "no-such-command-at-all",
    "ls /proc/$$/fd | sort -n | head -n 3", "ls /proc/self/fd | wc -l", "umask", "ulimit -n",
    "set -e; false; echo no", "set -u; echo $NOPE; echo no", "trap 'echo bye' EXIT; exit 4",
    "return 5", "echo a; echo b >&2; exit 6", "id; id -G", "x=1\necho $x\n\n# comment\n",
    "f() { echo $1; }; f 'a  b'", "", "   ", "echo $?", "cd /; pwd; echo $OLDPWD | wc -w",
    "sh -c 'exit 7'", "echo \\\\ '\\n' \"\\$x\"", "exec 3>&1; echo three >&3",
    "kill -TERM $$; echo no", "echo $PPID", "cat /proc/$$/stat | cut -d' ' -f5 | grep -c .");
INSTANTIATE_TEST_SUITE_P(Lines, WaitingShellTest, kLines);

class WaitingLoginShellTest : public testing::TestWithParam<const char*> {
 protected:
  // Before the first job, the shell that waits; behind it, a new one.
  Outcome run(const std::string& line) {
    return run_with_input(&client_, "run" + std::to_string(++runs_),
                          {"/bin/bash", "-l", "-c", line}, {"OF_JOB=j"});
  }
  void claim(std::vector<std::string> environment) {
    ASSERT_EQ(client_.call(Op::kPing).header.status, Status::kDone);
    ASSERT_EQ(client_.claim("worker", "h", std::move(environment)).header.status, Status::kDone);
  }

  CellUnderTest cell_{0, "export COLOR=${COLOR:-blue} FROM_PROFILE=$HOME\nmine() { echo mine; }\n"};
  CellClient client_{cell_.socket_path()};
  int runs_ = 0;
};

TEST_P(WaitingLoginShellTest, BehavesLikeANewOne) {
  claim({"GREETING=it's me"});
  const Outcome waiting = run(GetParam());
  const Outcome plain = run(GetParam());
  expect_same_end(waiting, plain);
  if (plain.error.find("syntax") == std::string::npos &&
      plain.error.find("EOF") == std::string::npos)
    EXPECT_EQ(waiting.error, plain.error);
  else
    EXPECT_FALSE(waiting.error.empty());
}

INSTANTIATE_TEST_SUITE_P(Lines, WaitingLoginShellTest, kLines);
INSTANTIATE_TEST_SUITE_P(LinesForBash, WaitingLoginShellTest,
                         testing::Values("mine; echo $FROM_PROFILE $OF_JOB", "shopt login_shell",
                                         "echo $- $SHLVL ${BASH_SOURCE[@]}", "echo $LINENO\nnope\n",
                                         "set | grep -c _pons", "declare -F", "compgen -e | sort"));

using LoginShellTest = WaitingLoginShellTest;

TEST_F(LoginShellTest, VariableThatAProfileDecidesAboutIsTheProfilesToDecide) {
  claim({"COLOR=red"});
  const Outcome waiting = run("echo $COLOR; pwd");
  EXPECT_EQ(waiting.output, "red\n" + cell_.home() + "\n");
  EXPECT_EQ(waiting.output, run("echo $COLOR; pwd").output);
}

TEST_F(LoginShellTest, ProfileThatAJobHasChangedIsReadAgain) {
  claim({});
  client_.run_line("change", "rm -f .profile; echo 'echo changed' > .profile");
  EXPECT_EQ(run("echo line").output, "changed\nline\n");
}

TEST_F(LoginShellTest, OtherDefaultsOfASandboxMeanANewShell) {
  claim({"PATH=/bin"});
  EXPECT_EQ(run("echo $PATH").output, run("echo $PATH").output);
}

}  // namespace
}  // namespace pons::cell
