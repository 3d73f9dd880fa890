#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lines.h"
#include "pons/audit/audit_log.h"
#include "pons/audit/verify.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "underway_notes.h"

namespace pons::audit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    char name[] = "/tmp/pons-audit-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
  }
  ~AuditTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::unique_ptr<AuditLog> open(AuditOptions options = {}) {
    auto log = AuditLog::open(directory_, clock_, std::move(options));
    EXPECT_TRUE(log) << log.error().describe();
    return std::move(*log);
  }
  static Decision decision(int i = 0) {
    return {.verdict = Verdict::kSwap,
            .sandbox = "box",
            .session = "session",
            .code = "swapped",
            .rule = "github",
            .method = "GET",
            .host = "api.github.com",
            .port = 443,
            .aliases = {"lb.example.net", "a.cdn.example.org"},
            .protocol = "h2",
            .path = fmt::format("/repos/{}", i),
            .credentials = {"GITHUB_TOKEN"},
            .bytes_in = 10,
            .bytes_out = 20,
            .request_id = fmt::format("r{}", i)};
  }
  void fill(int events, AuditOptions options = {}) {
    const auto log = open(std::move(options));
    for (int i = 0; i < events; ++i) EXPECT_TRUE(log->append(decision(i)));
  }
  std::string path(std::uint64_t number = 1) const { return directory_ + "/" + file_name(number); }
  std::vector<std::string> lines(std::uint64_t number = 1) const {
    const std::string text = linux::read_file(path(number)).value_or("");
    std::vector<std::string> all;
    for (const auto line : split(text, '\n'))
      if (!line.empty()) all.emplace_back(line);
    return all;
  }
  void write(const std::vector<std::string>& all, std::uint64_t number = 1) {
    write_text(fmt::format("{}\n", fmt::join(all, "\n")), number);
  }
  void write_text(std::string_view text, std::uint64_t number = 1) {
    std::ofstream(path(number), std::ios::binary | std::ios::trunc) << text;
  }
  bool intact(std::string_view known_hash = {}) {
    const auto report = verify(directory_, known_hash);
    EXPECT_TRUE(report);
    return report->intact;
  }
  std::vector<Json> events() {
    std::vector<Json> all;
    for (const std::string& line : *tail(directory_, 100'000)) {
      auto json = parse_json(line);
      EXPECT_TRUE(json) << line;
      all.push_back(std::move(*json));
    }
    return all;
  }

  std::string directory_;
  ManualClock clock_;
};

TEST_F(AuditTest, ADecisionIsOneLineWithAllItsFields) {
  fill(1);
  const Json event = events().at(0);
  EXPECT_EQ(event.at("seq"), 1);
  EXPECT_EQ(event.at("kind"), "decision");
  EXPECT_EQ(event.at("verdict"), "swap");
  EXPECT_EQ(event.at("sandbox"), "box");
  EXPECT_EQ(event.at("session"), "session");
  EXPECT_EQ(event.at("code"), "swapped");
  EXPECT_EQ(event.at("rule"), "github");
  EXPECT_EQ(event.at("method"), "GET");
  EXPECT_EQ(event.at("host"), "api.github.com");
  EXPECT_EQ(event.at("port"), 443);
  EXPECT_EQ(event.at("aliases"), Json::array({"lb.example.net", "a.cdn.example.org"}));
  EXPECT_EQ(event.at("protocol"), "h2");
  EXPECT_EQ(event.at("path"), "/repos/0");
  EXPECT_EQ(event.at("credentials"), Json::array({"GITHUB_TOKEN"}));
  EXPECT_EQ(event.at("bytes_in"), 10);
  EXPECT_EQ(event.at("bytes_out"), 20);
  EXPECT_EQ(event.at("request_id"), "r0");
  EXPECT_EQ(event.at("previous"), kFirstPrevious);
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, AnEmptyLogIsIntactAndAMissingOneIsAnError) {
  open();
  EXPECT_TRUE(intact());
  EXPECT_FALSE(verify(directory_ + "/none"));
}

TEST_F(AuditTest, QueriesAndWhatLooksLikeOtherLinesDoNotGetIn) {
  const auto log = open();
  Decision hostile = decision();
  hostile.path = "/a\"b\\c\r\n{\"seq\":9}\x1b[2J\xFF?token=SECRET#x";
  hostile.host = "evil\",\"verdict\":\"allow";
  hostile.method = std::string(500, 'M');
  hostile.sandbox = std::string("nul\0nul", 7);
  hostile.credentials.assign(1000, std::string(1000, 'C'));
  hostile.aliases.assign(1000, std::string(1000, 'A'));
  ASSERT_TRUE(log->append(hostile));
  ASSERT_TRUE(log->flush());
  const auto all = lines();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_LT(all[0].size(), kLineBytesMax);
  EXPECT_THAT(all[0], Not(HasSubstr("SECRET")));
  const Json event = events().at(0);
  EXPECT_EQ(event.at("verdict"), "swap");
  EXPECT_EQ(event.at("path"), "/a%22b%5Cc%0D%0A{%22seq%22:9}%1B[2J%FF");
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, LongPathsAreCut) {
  const auto log = open();
  Decision longest = decision();
  longest.path = "/" + std::string(100'000, '\n');
  ASSERT_TRUE(log->append(longest));
  ASSERT_TRUE(log->flush());
  EXPECT_LT(lines().at(0).size(), 1500U);
}

TEST_F(AuditTest, TheRedactionSeesWhatTheSandboxChose) {
  const auto log = open({.redact = [](std::string& text) {
    if (const auto at = text.find("STUB"); at != std::string::npos) text.replace(at, 4, "[stub]");
  }});
  Decision hostile = decision();
  hostile.path = "/x/STUB/y";
  hostile.host = "STUB.example.com";
  hostile.method = "STUB";
  ASSERT_TRUE(log->append(hostile));
  ASSERT_TRUE(log->flush());
  EXPECT_THAT(lines().at(0), Not(HasSubstr("STUB")));
  EXPECT_EQ(events().at(0).at("path"), "/x/[stub]/y");
}

// ---- the chain

TEST_F(AuditTest, TheChainGoesOnOverRestartsAndFiles) {
  fill(30, {.file_bytes_max = 2000});
  fill(30, {.file_bytes_max = 2000});
  const auto report = *verify(directory_);
  EXPECT_TRUE(report.intact) << report.findings.at(0).what;
  EXPECT_EQ(report.events, 60U);
  EXPECT_EQ(report.head.seq, 60U);
  EXPECT_GT(report.files, 5U);
  for (const auto& [number, bytes] : *list_files(directory_)) EXPECT_LE(bytes, 2000U);
}

TEST_F(AuditTest, EveryChangedByteShows) {
  fill(3);
  const auto before = lines();
  for (std::size_t at = 0; at < before[1].size(); ++at) {
    auto changed = before;
    changed[1][at] = changed[1][at] == 'x' ? 'y' : 'x';
    write(changed);
    EXPECT_FALSE(intact()) << at << " " << changed[1];
  }
  write(before);
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, AChangeWithAHashMadeToFitShowsAtTheNextLine) {
  fill(3);
  auto all = lines();
  const auto link = *parse_link(all[1]);
  all[1] = make_line(2, 0, "decision", ",\"verdict\":\"allow\"", link.previous);
  ASSERT_TRUE(parse_link(all[1])->hash_is_right);
  write(all);
  EXPECT_FALSE(intact());
}

TEST_F(AuditTest, RemovedMovedDoubledAndAddedLinesShow) {
  fill(6);
  const auto before = lines();
  for (std::size_t i = 0; i + 1 < before.size(); ++i) {
    auto removed = before;
    removed.erase(removed.begin() + static_cast<std::ptrdiff_t>(i));
    write(removed);
    EXPECT_FALSE(intact()) << i;
    auto moved = before;
    std::swap(moved[i], moved[i + 1]);
    write(moved);
    EXPECT_FALSE(intact()) << i;
    auto doubled = before;
    doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(i), before[i]);
    write(doubled);
    EXPECT_FALSE(intact()) << i;
    auto added = before;
    added.insert(added.begin() + static_cast<std::ptrdiff_t>(i),
                 make_line(i + 1, 0, "decision", "", parse_link(before[i])->previous));
    write(added);
    EXPECT_FALSE(intact()) << i;
  }
}

TEST_F(AuditTest, ARemovedOrShortenedFileShows) {
  fill(40, {.file_bytes_max = 2000});
  const auto first = lines(1);
  const auto second = lines(2);
  std::filesystem::remove(path(2));
  EXPECT_FALSE(intact());
  write(second, 2);
  EXPECT_TRUE(intact());
  std::filesystem::remove(path(1));
  EXPECT_FALSE(intact()) << "no event says that the beginning was removed";
  write({first.begin(), first.end() - 1}, 1);
  EXPECT_FALSE(intact());
  std::string text = fmt::format("{}\n", fmt::join(first, "\n"));
  write_text(text.substr(0, text.size() - 20));
  EXPECT_FALSE(intact());
}

TEST_F(AuditTest, ACutEndShowsToWhoeverKnowsAHashOfIt) {
  fill(5);
  const std::string known = verify(directory_)->head.hash;
  fill(2);
  EXPECT_TRUE(intact(known));
  auto all = lines();
  all.resize(4);
  write(all);
  EXPECT_TRUE(intact()) << "the chain alone cannot tell";
  EXPECT_FALSE(intact(known));
}

TEST_F(AuditTest, ALogWhoseEndWasChangedIsNotContinued) {
  fill(3);
  auto all = lines();
  all.back()[20] = 'x';
  write(all);
  const auto log = AuditLog::open(directory_, clock_);
  ASSERT_FALSE(log);
  EXPECT_EQ(log.error().code, ErrorCode::kDenied);
  EXPECT_THAT(log.error().message, HasSubstr(path()));
}

// ---- crashes and full disks

TEST_F(AuditTest, ATornLastLineIsRemovedAndSaidSo) {
  fill(3);
  const std::string text = *linux::read_file(path());
  const std::size_t third = text.rfind('\n', text.size() - 2) + 1;
  for (std::size_t size = third + 1; size < text.size(); ++size) {
    write_text(text.substr(0, size));
    EXPECT_TRUE(intact()) << "not yet repaired, and no tampering";
    open();
    const auto all = events();
    ASSERT_EQ(all.size(), 3U) << size;
    EXPECT_EQ(all.back().at("kind"), "repaired");
    EXPECT_EQ(all.back().at("bytes"), size - third);
    EXPECT_TRUE(intact());
  }
}

TEST_F(AuditTest, ATornFirstLineOfAFileIsRepairedWithTheChainOfTheFileBefore) {
  fill(20, {.file_bytes_max = 2000});
  const auto files = *list_files(directory_);
  const std::uint64_t next = files.rbegin()->first + 1;
  write_text("{\"seq\":2", next);
  fill(1);
  EXPECT_TRUE(intact());
  EXPECT_EQ(verify(directory_)->head.seq, 22U);
}

TEST_F(AuditTest, AKilledWriterLeavesALogThatGoesOn) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto log = open({.file_bytes_max = 50'000, .events_per_second = 1'000'000'000});
      for (int i = 0;; ++i) {
        clock_.advance(std::chrono::milliseconds(1));
        (void)log->append(decision(i));
        (void)log->flush();
      }
    }
    usleep(30'000);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    fill(1);
    EXPECT_TRUE(intact());
  }
}

TEST_F(AuditTest, WhatAKilledWriterHadBegunIsInTheLogAsCut) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto log = open();
    const auto running = log->begin(decision(1));
    auto unwritten = log->begin(decision(2));
    (void)log->append(decision(2));
    unwritten.reset();  // it has ended, and its decision is not with the kernel yet
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  open();
  ASSERT_EQ(events().size(), 2U);
  for (int i = 0; i < 2; ++i) {
    const Json event = events().at(static_cast<std::size_t>(i));
    EXPECT_EQ(event.at("kind"), "decision");
    EXPECT_EQ(event.at("verdict"), "cut");
    EXPECT_EQ(event.at("code"), "egress_ended");
    EXPECT_EQ(event.at("path"), fmt::format("/repos/{}", i + 1));
    EXPECT_EQ(event.at("credentials"), Json::array({"GITHUB_TOKEN"}));
  }
  open();
  EXPECT_EQ(events().size(), 2U) << "it is said once";
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, WhatIsWrittenAlreadyIsNotWrittenAgain) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto log = open();
    const auto underway = log->begin(decision(1));
    (void)log->append(decision(1));
    (void)log->flush();
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  open();
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events().at(0).at("verdict"), "swap");
}

TEST_F(AuditTest, WhatEndedOrderlyLeavesNoNote) {
  {
    const auto log = open({.events_per_second = 1, .events_at_once = 1});
    for (int i = 0; i < 100; ++i) {
      const auto underway = log->begin(decision(i));
      (void)log->append(decision(i));
    }
  }
  open();
  for (const Json& event : events()) EXPECT_NE(event.value("code", ""), "egress_ended");
}

TEST_F(AuditTest, WithoutAFreePlaceTheBeginningIsAnEvent) {
  const auto log = open({.events_per_second = 1'000'000, .events_at_once = 1'000'000});
  std::vector<AuditLog::Underway> all;
  for (std::uint32_t i = 0; i < UnderwayNotes::kPlacesMax; ++i)
    all.push_back(log->begin(decision(1)));
  EXPECT_TRUE(all.back());
  EXPECT_EQ(log->counts().written, 0U);
  EXPECT_FALSE(log->begin(decision(7)));
  EXPECT_EQ(lines().size(), 1U) << "and it is with the kernel already";
  EXPECT_EQ(events().at(0).at("kind"), "begun");
  EXPECT_EQ(events().at(0).at("path"), "/repos/7");
  all.pop_back();
  EXPECT_TRUE(log->begin(decision(8)));
}

TEST_F(AuditTest, NotesThatMeanNothingAreNoHarm) {
  fill(1);
  std::ofstream(directory_ + "/underway", std::ios::binary)
      << std::string(UnderwayNotes::kPlaceBytes, 'x') << "half a no";
  open();
  EXPECT_EQ(events().size(), 1U);
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, AtTheQuotaEventsAreCountedAndTheLogSaysSo) {
  const AuditOptions small{.file_bytes_max = 2000, .total_bytes_max = 6000};
  {
    const auto log = open(small);
    std::uint64_t refused = 0;
    for (int i = 0; i < 50; ++i) {
      const auto appended = log->append(decision(i));
      refused += !appended;
      if (!appended) EXPECT_EQ(appended.error().code, ErrorCode::kLimit);
      (void)log->flush();
    }
    EXPECT_GT(refused, 20U);
    EXPECT_EQ(log->counts().lost, refused);
    std::uint64_t bytes = 0;
    for (const auto& [number, size] : *list_files(directory_)) bytes += size;
    EXPECT_LE(bytes, 7000U);
    EXPECT_EQ(events().back().at("kind"), "full");
    EXPECT_TRUE(intact());
  }
  const auto log = open();  // with room again
  ASSERT_TRUE(log->append(decision()));
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, OldFilesGoOnlyWhenConfiguredAndTheChainStillVerifies) {
  fill(100,
       {.file_bytes_max = 2000, .total_bytes_max = 9000, .retention = Retention::kRemoveOldest});
  const auto report = *verify(directory_);
  EXPECT_TRUE(report.intact) << report.findings.at(0).what;
  EXPECT_GT(report.first_seq, 1U);
  EXPECT_FALSE(report.notes.empty());
  EXPECT_GT(report.head.seq, 100U) << "removals are events too";
  // Without the event that says so, the same is a finding.
  const auto files = *list_files(directory_);
  std::filesystem::remove(path(files.begin()->first));
  EXPECT_FALSE(intact());
}

// A file size limit stands for a full disk; in a child, because it holds for the process.
TEST_F(AuditTest, ADiskThatTakesNothingLosesNoOrder) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const auto log = open();
    const rlimit narrow{.rlim_cur = 3000, .rlim_max = RLIM_INFINITY};
    const rlimit wide{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &narrow);
    bool refused = false;
    for (int i = 0; i < 20; ++i) {
      (void)log->append(decision(i));
      refused |= !log->flush();
    }
    setrlimit(RLIMIT_FSIZE, &wide);
    _exit(refused && log->flush() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(events().size(), 20U);
  EXPECT_TRUE(intact());
}

// ---- floods

TEST_F(AuditTest, AFloodIsCountedByVerdictAndNothingVanishes) {
  const auto log = open({.events_per_second = 10, .events_at_once = 20});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(log->append(decision(i)));
  Decision blocked = decision();
  blocked.verdict = Verdict::kBlock;
  ASSERT_TRUE(log->append(blocked));
  EXPECT_EQ(log->counts().suppressed, 481U);
  clock_.advance(std::chrono::seconds(1));
  ASSERT_TRUE(log->flush());
  const auto all = events();
  ASSERT_EQ(all.size(), 21U);
  EXPECT_EQ(all.back().at("kind"), "suppressed");
  EXPECT_EQ(all.back().at("sandbox"), "box");
  EXPECT_EQ(all.back().at("suppressed"), 481);
  EXPECT_EQ(all.back().at("by_verdict"), (Json{{"swap", 480}, {"block", 1}}));
  EXPECT_TRUE(intact());
}

TEST_F(AuditTest, OneSandboxesFloodCostsNoOtherItsEvents) {
  const auto log = open({.events_per_second = 10, .events_at_once = 20});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(log->append(decision(i)));
  Decision other = decision();
  other.sandbox = "quiet";
  ASSERT_TRUE(log->append(other));
  ASSERT_TRUE(log->flush());
  EXPECT_EQ(events().back().at("sandbox"), "quiet");
}

TEST_F(AuditTest, TheCountIsWrittenAtTheEndToo) {
  {
    const auto log = open({.events_per_second = 10, .events_at_once = 20});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(log->append(decision(i)));
  }
  EXPECT_EQ(events().back().at("suppressed"), 80);
}

// ---- reading

TEST_F(AuditTest, TailAndReaderGiveEveryLineOnceAndInOrder) {
  const AuditOptions small{.file_bytes_max = 2000};
  fill(30, small);
  const auto last = *tail(directory_, 7);
  ASSERT_EQ(last.size(), 7U);
  EXPECT_EQ(parse_link(last.front())->seq, 24U);
  EXPECT_EQ(parse_link(last.back())->seq, 30U);

  Reader reader(directory_);
  std::vector<std::uint64_t> seen;
  const auto take = [&](std::string_view line) {
    seen.push_back(parse_link(line)->seq);
    return true;
  };
  ASSERT_TRUE(reader.read(take));
  EXPECT_EQ(seen.size(), 30U);
  ASSERT_TRUE(reader.read(take));
  EXPECT_EQ(seen.size(), 30U);
  fill(10, small);
  ASSERT_TRUE(reader.read(take));
  ASSERT_EQ(seen.size(), 40U);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i + 1);

  Reader later(directory_);
  ASSERT_TRUE(later.skip_to_end());
  fill(1, small);
  seen.clear();
  ASSERT_TRUE(later.read(take));
  EXPECT_EQ(seen, std::vector<std::uint64_t>{41});
}

}  // namespace
}  // namespace pons::audit
