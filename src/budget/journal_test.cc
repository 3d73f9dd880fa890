#include "journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "call_log.h"
#include "crc32c.h"

namespace pons::budget {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::int64_t kNow = 1'700'000'000'000;

Reserved reserved(std::string id) {
  return {.id = std::move(id),
          .project_id = "default",
          .path = "mk_a/mk_b",
          .model = "m",
          .provider = "p",
          .estimate = {.input = 10, .cache_write = 2, .output = 90},
          .input_nano = 12,
          .time_ms = kNow};
}
Progress progress(std::string id, std::int64_t output) {
  return {.id = std::move(id), .usage = {.output = output}, .cost_nano = output};
}
Settled settled(std::string id) {
  return {.id = std::move(id),
          .usage = {1, 2, 3, 4, 5, 6},
          .sandbox_seconds = 7,
          .requests = 1,
          .cost_nano = 15,
          .outcome = Outcome::kFailed,
          .time_ms = kNow};
}
std::vector<Record> some_records() {
  return {FileBegins{.number = 3}, reserved("mc_a"), progress("mc_a", 5),
          settled("mc_a"),         reserved("mc_b"), Released{.id = "mc_b"}};
}
std::string bytes_of(const std::vector<Record>& records) {
  std::string bytes;
  for (const Record& record : records) append_record(bytes, record);
  return bytes;
}

// ---- records

TEST(Records, TheChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

TEST(Records, AreReadAsTheyWereWritten) {
  const Records read = read_records(bytes_of(some_records()));
  EXPECT_EQ(read.records, some_records());
  EXPECT_FALSE(read.whole_again);
}

TEST(Records, TheLargestFits) {
  Reserved large = reserved(std::string(kTextMax, 'i'));
  large.project_id = large.model = large.provider = std::string(kTextMax, 'x');
  large.path = std::string(kPathMax, 'p');
  EXPECT_THAT(read_records(bytes_of({large})).records, SizeIs(1));
}

TEST(Records, AFileThatEndsAnywhereHasItsWholeRecords) {
  const std::string bytes = bytes_of(some_records());
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const Records read = read_records(bytes.substr(0, length));
    ASSERT_FALSE(read.whole_again) << length;
    ASSERT_LE(read.bytes, length);
    ASSERT_EQ(bytes_of(read.records), bytes.substr(0, read.bytes));
  }
}

TEST(Records, ZerosBehindTheLastRecordAreWhereAMachineDied) {
  const std::string bytes = bytes_of(some_records());
  const Records read = read_records(bytes + std::string(5000, '\0'));
  EXPECT_EQ(read.bytes, bytes.size());
  EXPECT_FALSE(read.whole_again);
}

TEST(Records, EveryDamagedByteIsNoticed) {
  const std::string bytes = bytes_of(some_records());
  const std::string last = bytes_of({Released{.id = "mc_b"}});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    const Records read = read_records(damaged);
    if (at >= bytes.size() - last.size()) {
      ASSERT_THAT(read.records, SizeIs(5)) << "the last record may be torn";
      ASSERT_FALSE(read.whole_again);
      continue;
    }
    ASSERT_TRUE(read.whole_again) << at;
    ASSERT_LE(read.bytes, at);
    ASSERT_GT(*read.whole_again, at);
  }
}

// ---- files

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() {
    char name[] = "/tmp/pons-journal-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    options_.directory = name;
  }
  ~JournalTest() override {
    log_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(options_.directory, ignored);
  }
  void open() {
    log_.reset();
    auto opened = CallLog::open(options_, 0, kNow);
    ASSERT_TRUE(opened) << opened.error().describe();
    log_ = std::move(*opened);
  }
  // All that is settled and waits for the ledger.
  std::vector<Entry> take_entries() {
    std::vector<Entry> all;
    EXPECT_TRUE(log_->finish_file());
    while (log_->has_batch()) {
      const auto& entries = log_->first_batch().entries;
      all.insert(all.end(), entries.begin(), entries.end());
      log_->first_batch_is_stored();
    }
    return all;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory))
      if (entry.path().filename() != "lock") names.push_back(entry.path());
    std::ranges::sort(names);
    return names;
  }

  JournalOptions options_;
  std::unique_ptr<CallLog> log_;
};

TEST_F(JournalTest, ADirectoryHasOneOwner) {
  open();
  const auto second = CallLog::open(options_, 0, kNow);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
}

TEST_F(JournalTest, WhatWasSettledIsThereForTheNextProcess) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_a")));
  log_->settle(settled("mc_a"));
  open();
  const auto entries = take_entries();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].reserved, reserved("mc_a"));
  EXPECT_EQ(entries[0].settled, settled("mc_a"));
  open();
  EXPECT_THAT(take_entries(), SizeIs(0)) << "once";
}

TEST_F(JournalTest, ALostCallIsChargedOnceAtItsProgressAndEstimatedPrompt) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_never_sent")));
  ASSERT_TRUE(log_->reserve(reserved("mc_sent")));
  log_->progress(progress("mc_sent", 0));
  ASSERT_TRUE(log_->reserve(reserved("mc_sent_at_once"), true));
  ASSERT_TRUE(log_->reserve(reserved("mc_streaming")));
  log_->progress(progress("mc_streaming", 3));
  log_->progress(progress("mc_streaming", 33));
  ASSERT_TRUE(log_->reserve(reserved("mc_counted")));
  log_->progress({.id = "mc_counted", .usage = {.input = 4, .output = 1}, .cost_nano = 5});
  ASSERT_TRUE(log_->reserve(reserved("mc_released")));
  log_->release("mc_released");
  open();
  open();  // and again, before anything was stored
  std::map<std::string, Settled> lost;
  for (const Entry& entry : take_entries())
    EXPECT_TRUE(lost.emplace(entry.settled.id, entry.settled).second) << "twice";
  ASSERT_THAT(lost, SizeIs(4));
  EXPECT_EQ(lost["mc_sent"].cost_nano, 12);
  EXPECT_EQ(lost["mc_sent_at_once"].cost_nano, 12);
  EXPECT_EQ(lost["mc_sent"].outcome, Outcome::kLost);
  EXPECT_EQ(lost["mc_streaming"].cost_nano, 12 + 33);
  EXPECT_EQ(lost["mc_streaming"].usage,
            (models::Usage{.input = 10, .cache_write = 2, .output = 33}));
  EXPECT_EQ(lost["mc_counted"].cost_nano, 5);
  EXPECT_EQ(lost["mc_counted"].usage, (models::Usage{.input = 4, .output = 1}));
}

TEST_F(JournalTest, CallsThatOutliveAFileGoOnInTheNext) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_long")));
  log_->progress(progress("mc_long", 8));
  ASSERT_TRUE(log_->reserve(reserved("mc_short")));
  log_->settle(settled("mc_short"));
  EXPECT_THAT(take_entries(), SizeIs(1));
  open();  // the first file is gone
  const auto entries = take_entries();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].settled.id, "mc_long");
  EXPECT_EQ(entries[0].settled.usage.output, 8);
}

TEST_F(JournalTest, AFullFileMakesRoomForTheNextUntilTooManyWait) {
  options_.file_bytes = 1000;
  open();
  int taken = 0;
  Result<void> last;
  for (; taken < 1000; ++taken) {
    const std::string id = "mc_" + std::to_string(taken);
    last = log_->reserve(reserved(id));
    if (!last) break;
    log_->settle(settled(id));
  }
  EXPECT_EQ(last.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(files(), SizeIs(5));
  log_->first_batch_is_stored();
  EXPECT_TRUE(log_->reserve(reserved("mc_again")));
}

TEST_F(JournalTest, ATornLastRecordIsCutOff) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_a")));
  log_->settle(settled("mc_a"));
  ASSERT_TRUE(log_->reserve(reserved("mc_b")));
  log_.reset();
  const std::string file = files().back();
  ASSERT_EQ(truncate(file.c_str(), static_cast<off_t>(std::filesystem::file_size(file) - 1)), 0);
  open();
  EXPECT_THAT(take_entries(), SizeIs(1));
}

// Zeros where a record was: what a disk leaves that lost its power before it wrote all its sectors.
void punch_hole(const std::string& file, std::size_t at, std::size_t bytes) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(at));
  out << std::string(bytes, '\0');
}

TEST_F(JournalTest, AFileWithAHoleIsCutThereAndKeptAside) {
  open();
  for (const char* id : {"mc_before", "mc_over", "mc_unsent"})
    ASSERT_TRUE(log_->reserve(reserved(id)));
  log_->progress(progress("mc_over", 3));
  log_->settle(settled("mc_before"));
  const std::string file = files().back();
  const std::size_t hole = std::filesystem::file_size(file);
  log_->release("mc_unsent");
  log_->settle(settled("mc_over"));
  ASSERT_TRUE(log_->reserve(reserved("mc_behind")));
  log_->settle(settled("mc_behind"));
  log_.reset();
  const auto size = std::filesystem::file_size(file);
  punch_hole(file, hole, 10);

  open();
  std::map<std::string, Settled> entries;
  for (const Entry& entry : take_entries()) entries.emplace(entry.settled.id, entry.settled);
  EXPECT_THAT(entries, SizeIs(2)) << "what is not known to be sent is not charged";
  EXPECT_EQ(entries["mc_before"], settled("mc_before"));
  EXPECT_EQ(entries["mc_over"].outcome, Outcome::kLost);
  const std::string aside = options_.directory + "/damaged-journal-000000000001";
  log_.reset();
  ASSERT_THAT(files(), testing::Contains(aside));
  EXPECT_EQ(std::filesystem::file_size(aside), size);
  open();
  EXPECT_THAT(take_entries(), SizeIs(0)) << "once";
}

TEST_F(JournalTest, AFileOfWhichOnlyTheEndIsThereIsKeptAside) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_a")));
  log_->settle(settled("mc_a"));
  log_.reset();
  punch_hole(files().back(), 0, 10);
  open();
  EXPECT_THAT(take_entries(), SizeIs(0));
  EXPECT_THAT(files(), testing::Contains(HasSubstr("damaged-")));
}

TEST_F(JournalTest, AFileUnderAnotherNameIsRefused) {
  open();
  ASSERT_TRUE(log_->reserve(reserved("mc_a")));
  log_.reset();
  std::filesystem::rename(files().back(), options_.directory + "/journal-000000000099");
  EXPECT_FALSE(CallLog::open(options_, 0, kNow));
}

TEST_F(JournalTest, StartsThatFailLeaveNoTrailOfFiles) {
  for (int i = 0; i < 20; ++i) open();
  log_.reset();
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(JournalTest, NumbersGoOnFromWhatTheLedgerKnows) {
  log_ = *CallLog::open(options_, 41, kNow);
  EXPECT_THAT(files().back(), HasSubstr("journal-000000000042"));
}

// No file may grow beyond it: what a full disk looks like.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    before_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{.rlim_cur = bytes, .rlim_max = limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    signal(SIGXFSZ, before_);
  }

 private:
  rlimit limit_{};
  sighandler_t before_;
};

TEST_F(JournalTest, AFullDiskRefusesNewCallsAndLosesNoneThatEnds) {
  open();
  for (const char* id : {"mc_a", "mc_b", "mc_c"}) ASSERT_TRUE(log_->reserve(reserved(id)));
  {
    // In the middle of the next record: some of it is written.
    const FileSizeLimit full(std::filesystem::file_size(files().back()) + 50);
    EXPECT_EQ(log_->reserve(reserved("mc_d")).error().code, ErrorCode::kUnavailable);
    log_->settle(settled("mc_a"));
    log_->release("mc_b");
    EXPECT_EQ(log_->reserve(reserved("mc_d")).error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(take_entries(), SizeIs(0));
  }
  EXPECT_TRUE(log_->reserve(reserved("mc_e"))) << "there is room again";
  log_->settle(settled("mc_e"));
  const auto entries = take_entries();
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].settled.id, "mc_a");
  open();
  EXPECT_THAT(take_entries(), SizeIs(0)) << "the others never reached a provider";
}

}  // namespace
}  // namespace pons::budget
