#include "furnished_hands.h"

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "brain_fixture.h"
#include "pons/sandbox/refusing_provider.h"

namespace pons::brain {
namespace {

constexpr const char* kNote = "/var/lib/pons/session-files.json";

struct MachineFile {
  std::string bytes;
  sandbox::WriteOptions options;
};

class Bytes final : public sandbox::ByteSource {
 public:
  explicit Bytes(std::string text) : text_(std::move(text)) {}
  Task<Result<std::string>> next() override { co_return std::exchange(text_, {}); }

 private:
  std::string text_;
};

class Endless final : public sandbox::ByteSource {
 public:
  Task<Result<std::string>> next() override { co_return std::string(1 << 20, ' '); }
};

// One machine with files.
class Machine final : public sandbox::RefusingProvider {
 public:
  std::map<std::string, MachineFile> files;
  std::map<std::string, std::string> folders;  // by path: whose
  std::set<std::string> refused;               // paths at which nothing can be
  int writes = 0;
  int failures = 0;  // so many times the way to it is broken
  int looks = 0;
  std::map<std::string, Error> write_errors;   // by path
  std::map<std::string, Error> remove_errors;  // by path
  std::optional<Error> read_error;
  bool is_endless = false;  // whatever is read of it
  std::function<Task<>()> before_write;
  std::function<std::optional<Error>()> before_note;
  std::vector<std::string> written;

  Task<Result<std::unique_ptr<sandbox::ByteSource>>> read_file(std::string, std::string path,
                                                               std::string, std::uint64_t,
                                                               std::uint64_t) override {
    ++looks;
    if (failures > 0 && failures-- > 0) co_return away();
    if (read_error) co_return *read_error;
    if (is_endless) co_return std::make_unique<Endless>();
    const auto found = files.find(path);
    if (found == files.end()) co_return make_error(ErrorCode::kNotFound, "read", "none");
    co_return std::make_unique<Bytes>(found->second.bytes);
  }
  Task<Result<sandbox::FileInfo>> write_file(std::string, std::string path,
                                             sandbox::WriteOptions options,
                                             std::unique_ptr<sandbox::ByteSource> bytes) override {
    if (refused.contains(path)) co_return make_error(ErrorCode::kConflict, "write", "a folder");
    if (const auto found = write_errors.find(path); found != write_errors.end())
      co_return found->second;
    if (before_note && path == kNote)
      if (const auto error = before_note()) co_return *error;
    if (before_write && path != kNote) co_await before_write();
    written.push_back(path);
    ++writes;
    std::string text;
    for (;;) {
      CO_TRY(const auto piece, co_await bytes->next());
      if (piece.empty()) break;
      text += piece;
    }
    files[path] = {.bytes = std::move(text), .options = std::move(options)};
    co_return sandbox::FileInfo{.path = path};
  }
  Task<Result<sandbox::FileInfo>> stat_file(std::string, std::string path, std::string) override {
    if (!folders.contains(path)) co_return make_error(ErrorCode::kNotFound, "stat", "none");
    co_return sandbox::FileInfo{.path = path, .kind = sandbox::FileKind::kDirectory};
  }
  Task<Result<sandbox::FileInfo>> make_directory(std::string, std::string path, std::string,
                                                 std::string owner) override {
    folders[path] = owner;
    co_return sandbox::FileInfo{.path = path, .kind = sandbox::FileKind::kDirectory};
  }
  Task<Result<sandbox::FileInfo>> rename_file(std::string, std::string from, std::string to,
                                              std::string) override {
    if (folders.erase(from) == 0) co_return make_error(ErrorCode::kNotFound, "rename", "none");
    folders[to] = "user";
    co_return sandbox::FileInfo{.path = to, .kind = sandbox::FileKind::kDirectory};
  }
  Task<Result<void>> remove_file(std::string, std::string path, std::string) override {
    if (const auto found = remove_errors.find(path); found != remove_errors.end())
      co_return found->second;
    if (files.erase(path) + folders.erase(path) == 0)
      co_return make_error(ErrorCode::kNotFound, "remove", "none");
    co_return {};
  }

 private:
  static Error away() { return make_error(ErrorCode::kUnavailable, "ask warden", "went away"); }
};

// What its machine ran stays known there, whoever asks.
class PlainHands final : public session::Hands {
 public:
  explicit PlainHands(Machine& machine) : machine_(machine) {}
  int provisions = 0;
  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder) override {
    ++provisions;
    co_return session::ProvisionReport{.contents = "Linux"};
  }
  Task<Result<void>> copy(session::CopyOrder) override { co_return {}; }
  std::vector<session::ExecuteOrder> executed;
  session::ExecuteReport report;
  std::map<std::string, session::ExecuteReport> ran;
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    executed.push_back(order);
    const auto [known, is_new] = ran.try_emplace(order.call, report);
    // The second word of its first line is the folder.
    const std::string words = order.command.substr(0, order.command.find('\n'));
    const std::size_t at = words.find("' '") + 3;
    if (is_new && report.code == 0)
      machine_.folders[words.substr(at, words.find('\'', at) - at)] = "user";
    co_return known->second;
  }
  Task<Result<void>> stop(std::string, std::string) override { co_return {}; }
  Task<Result<void>> destroy(std::string) override { co_return {}; }

 private:
  Machine& machine_;
};

class FurnishedHandsTest : public BrainTest {
 protected:
  FurnishedHandsTest() { begin(); }

  // As another process does.
  void begin() {
    hands_ = std::make_unique<FurnishedHands>(*loop_, plain_, machine_, files_, times_);
    hands_->find_files_with([this](std::string, std::string) { return find_ordered(); });
  }
  Task<Result<managed::SessionFiles>> find_ordered() {
    ++asked_;
    co_return ordered_;
  }
  Task<Result<files::File>> store_file(std::string bytes) {
    CO_TRY(auto upload, co_await files_.begin("default"));
    CO_TRY_VOID(co_await upload.write(bytes));
    co_return co_await upload.finish({.name = "x"});
  }
  std::string upload(std::string bytes) { return run(store_file(std::move(bytes))).value().id; }
  void order(std::string resource, std::string file, std::string path) {
    ordered_.wanted.push_back(
        {.resource = std::move(resource), .file = std::move(file), .path = std::move(path)});
  }
  Result<void> use(std::string session = "sesn_1") {
    const auto report = run(hands_->provision(
        {.sandbox = "sx-1", .session = std::move(session), .project = "default"}));
    if (!report) return report.error();
    return {};
  }

  void order_repository() {
    ordered_.wanted.push_back({.resource = "r1",
                               .file = {},
                               .path = "/workspace/x",
                               .repository = managed::Repository{.url = "https://github.com/a/x"}});
  }

  FurnishedHands::Times times_;
  files::FileStore files_{*store_, clock_};
  Machine machine_;
  PlainHands plain_{machine_};
  managed::SessionFiles ordered_;
  int asked_ = 0;
  std::unique_ptr<FurnishedHands> hands_;
};

TEST_F(FurnishedHandsTest, AMachineHasItsFilesWithTheirExactBytes) {
  std::string bytes(3 * files::kPartBytes + 17, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  order("r1", upload(bytes), "/mnt/session/uploads/a");
  order("r2", upload(""), "/home/user/empty");
  ASSERT_TRUE(use());
  const MachineFile& file = machine_.files.at("/mnt/session/uploads/a");
  EXPECT_TRUE(file.bytes == bytes);
  EXPECT_EQ(file.options.owner, "user");
  EXPECT_EQ(machine_.files.at("/home/user/empty").bytes, "");
  // Nobody in the machine but root reads or changes what stands there of it.
  const MachineFile& note = machine_.files.at(kNote);
  EXPECT_EQ(note.options.mode, 0600U);
  EXPECT_EQ(note.options.owner, "");
  EXPECT_EQ(note.options.user, "root");
}

TEST_F(FurnishedHandsTest, WhatTheAgentMakesOfAFileStays) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  machine_.files["/a"].bytes = "changed";
  const int writes = machine_.writes;
  ASSERT_TRUE(use());
  begin();
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "changed");
  EXPECT_EQ(machine_.writes, writes);
}

TEST_F(FurnishedHandsTest, AMachineThatIsMadeAgainGetsEverythingAgain) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  machine_.files.clear();
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "one");
}

TEST_F(FurnishedHandsTest, FilesComeAndGoWhileTheSessionLives) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  order("r2", upload("two"), "/b");
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/b"].bytes, "two");
  ordered_.wanted.clear();
  ordered_.had_others = true;
  begin();
  ASSERT_TRUE(use());
  EXPECT_FALSE(machine_.files.contains("/a"));
  EXPECT_FALSE(machine_.files.contains("/b"));
  // From then on what is at its place is the agent's.
  machine_.files["/a"].bytes = "its own";
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "its own");
}

TEST_F(FurnishedHandsTest, AResourceMayTakeThePlaceOfOneThatWasTakenOut) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  ordered_.wanted.clear();
  order("r2", upload("two"), "/a");
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "two");
}

TEST_F(FurnishedHandsTest, OtherSessionsAreNotLookedAt) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use("ses_of_another_api"));
  EXPECT_EQ(asked_, 0);
  ordered_ = {};
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.looks, 0);
  EXPECT_TRUE(machine_.files.empty());
}

TEST_F(FurnishedHandsTest, AFileThatCannotBePutThereEndsOneCallAndSaysWhy) {
  order("r1", upload("one"), "/a");
  order("r2", upload("two"), "/b");
  order("r3", upload("three"), "/c");
  machine_.refused = {"/b"};
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kInvalid);
  EXPECT_NE(used.error().message.find("/b"), std::string::npos);
  EXPECT_EQ(machine_.files["/c"].bytes, "three");
  // From then on the agent works without it, and it is not sent again.
  machine_.refused.clear();
  machine_.files["/a"].bytes = "changed";
  ASSERT_TRUE(use());
  begin();
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "changed");
  EXPECT_FALSE(machine_.files.contains("/b"));
  // What is there instead is not ours when the resource goes; added again, it is tried again.
  const std::string file = ordered_.wanted[1].file;
  machine_.files["/b"].bytes = "its own";
  std::erase_if(ordered_.wanted, [](const auto& each) { return each.resource == "r2"; });
  ordered_.had_others = true;
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/b"].bytes, "its own");
  order("r4", file, "/b");
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/b"].bytes, "two");
}

TEST_F(FurnishedHandsTest, AFullMachineIsToldOnceAndWorksOn) {
  order("r1", upload("one"), "/a");
  machine_.write_errors.emplace(kNote, make_error(ErrorCode::kLimit, "write", "no space left"));
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_NE(used.error().message.find("no space left"), std::string::npos);
  EXPECT_TRUE(machine_.files.empty());
  ASSERT_TRUE(use());
  machine_.write_errors.clear();
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "one");
}

TEST_F(FurnishedHandsTest, AFileThatLeavesNoRoomForTheNoteIsTakenOutAgain) {
  order("r1", upload("one"), "/a");
  int notes = 0;
  machine_.before_note = [&] {
    return ++notes == 2 ? std::optional(make_error(ErrorCode::kLimit, "write", "no space left"))
                        : std::nullopt;
  };
  EXPECT_FALSE(use());
  EXPECT_FALSE(machine_.files.contains("/a"));
  ASSERT_TRUE(use());
  EXPECT_EQ(notes, 3);
}

TEST_F(FurnishedHandsTest, NothingIsPutWhereTheNoteCannotBeReadNow) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  machine_.files["/a"].bytes = "changed";
  machine_.read_error = make_error(ErrorCode::kLimit, "read", "too many jobs");
  const int writes = machine_.writes;
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kLimit);
  EXPECT_NE(used.error().message.find("too many jobs"), std::string::npos);
  EXPECT_EQ(machine_.writes, writes);
  EXPECT_EQ(machine_.files["/a"].bytes, "changed");
}

TEST_F(FurnishedHandsTest, AFileThatCouldNotBeTakenOutIsTakenOutLater) {
  order("r1", upload("one"), "/a");
  ASSERT_TRUE(use());
  ordered_.wanted.clear();
  ordered_.had_others = true;
  machine_.remove_errors.emplace("/a", make_error(ErrorCode::kIo, "remove", "a bad disk"));
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_NE(used.error().message.find("a bad disk"), std::string::npos);
  machine_.remove_errors.clear();
  ASSERT_TRUE(use());
  EXPECT_FALSE(machine_.files.contains("/a"));
}

TEST_F(FurnishedHandsTest, AWardenThatStaysAwayIsARefusal) {
  times_.patience = {};
  begin();
  order("r1", upload("one"), "/a");
  machine_.failures = 1;
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kInvalid);
  EXPECT_NE(used.error().message.find("went away"), std::string::npos);
}

TEST_F(FurnishedHandsTest, ACallWaitsOnlySoLongForAllItsFiles) {
  times_.longest = std::chrono::milliseconds(200);
  begin();
  order("r1", upload("one"), "/a");
  order("r2", upload("two"), "/b");
  bool is_slow = true;
  machine_.before_write = [&]() -> Task<> {
    if (is_slow && !machine_.written.empty() && machine_.files.contains("/a"))
      co_await loop_->sleep_for(std::chrono::hours(1));
  };
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kInvalid);
  EXPECT_NE(used.error().message.find("too long"), std::string::npos);
  // What was done until then is done.
  is_slow = false;
  machine_.files["/a"].bytes = "changed";
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "changed");
  EXPECT_EQ(machine_.files["/b"].bytes, "two");
}

TEST_F(FurnishedHandsTest, ADeletedFileIsInNoNewMachineAndStopsNobody) {
  const std::string id = upload("one");
  order("r1", id, "/a");
  order("r2", upload("two"), "/b");
  ASSERT_TRUE(run(files_.remove("default", id)));
  ASSERT_TRUE(use());
  EXPECT_FALSE(machine_.files.contains("/a"));
  EXPECT_EQ(machine_.files["/b"].bytes, "two");
}

TEST_F(FurnishedHandsTest, AWardenThatComesBackIsWaitedFor) {
  order("r1", upload("one"), "/a");
  machine_.failures = 1;
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "one");
}

TEST_F(FurnishedHandsTest, ANoteThatNobodyCanReadStandsForNone) {
  order("r1", upload("one"), "/a");
  machine_.files[kNote].bytes = "[1, {";
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "one");
}

TEST_F(FurnishedHandsTest, ANoteWithoutAnEndIsNotReadForEver) {
  order("r1", upload("one"), "/a");
  machine_.is_endless = true;
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.files["/a"].bytes, "one");
}

TEST_F(FurnishedHandsTest, ARepositoryIsClonedOnceIntoAFolderOfTheUser) {
  ordered_.wanted.push_back(
      {.resource = "r1",
       .file = {},
       .path = "/workspace/x",
       .repository = managed::Repository{.url = "https://github.com/a/x", .branch = "main"}});
  ASSERT_TRUE(use());
  ASSERT_TRUE(use());
  begin();
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.folders.at("/workspace/x"), "user");
  ASSERT_EQ(plain_.executed.size(), 1U);
  EXPECT_EQ(plain_.executed[0].call, "clone-r1-0");
  EXPECT_TRUE(plain_.executed[0].command.starts_with(
      "set -- 'https://github.com/a/x' '/workspace/.pons-r1/tree' 'main' ''\n"));
  EXPECT_FALSE(machine_.folders.contains("/workspace/.pons-r1"));
  // Where the machine is another one, it is cloned again.
  machine_.files.clear();
  machine_.folders.clear();
  plain_.ran.clear();
  ASSERT_TRUE(use());
  EXPECT_EQ(plain_.executed.size(), 2U);
}

TEST_F(FurnishedHandsTest, ARepositoryThatCannotBeClonedIsTriedAgainUnderAnotherName) {
  order_repository();
  plain_.report = {.code = 128, .output = "fatal: repository not found\n"};
  const auto used = use();
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kInvalid);
  EXPECT_NE(used.error().message.find("fatal: repository not found"), std::string::npos);
  EXPECT_NE(used.error().message.find("https://github.com/a/x"), std::string::npos);
  plain_.report = {};
  ASSERT_TRUE(use());
  ASSERT_EQ(plain_.executed.size(), 2U);
  EXPECT_EQ(plain_.executed[1].call, "clone-r1-1");
}

TEST_F(FurnishedHandsTest, AnotherProcessTriesARepositoryAgain) {
  order_repository();
  plain_.report = {.code = 128, .output = "fatal: repository not found\n"};
  EXPECT_FALSE(use());
  EXPECT_FALSE(use());
  begin();
  plain_.report = {};
  ASSERT_TRUE(use());
  ASSERT_EQ(plain_.executed.size(), 3U);
  EXPECT_EQ(plain_.executed[2].call, "clone-r1-2");
  EXPECT_TRUE(machine_.folders.contains("/workspace/x"));
}

// It ended between the move and the note.
TEST_F(FurnishedHandsTest, ACloneThatADeadProcessMovedIsNotMovedOver) {
  order_repository();
  ASSERT_TRUE(use());
  machine_.files.erase(kNote);
  begin();
  ASSERT_TRUE(use());
  EXPECT_TRUE(machine_.folders.contains("/workspace/x"));
  EXPECT_FALSE(machine_.folders.contains("/workspace/.pons-r1"));
  // And where there is none in spite of what the machine remembers, it is cloned again.
  machine_.files.erase(kNote);
  machine_.folders.clear();
  begin();
  ASSERT_TRUE(use());
  EXPECT_EQ(plain_.executed.back().call, "clone-r1-1");
  EXPECT_TRUE(machine_.folders.contains("/workspace/x"));
}

TEST_F(FurnishedHandsTest, ARepositoryThatNeverCameLeavesNothingWhenItGoes) {
  order_repository();
  plain_.report = {.code = 128, .output = "fatal\n"};
  EXPECT_FALSE(use());
  machine_.folders["/workspace/x"] = "agent";
  ordered_.wanted.clear();
  ordered_.had_others = true;
  ASSERT_TRUE(use());
  EXPECT_EQ(machine_.folders, (std::map<std::string, std::string>{{"/workspace/x", "agent"}}));
}

Task<> provision_into(FurnishedHands& hands, Result<void>& done) {
  const auto report =
      co_await hands.provision({.sandbox = "sx-1", .session = "sesn_1", .project = "default"});
  done = report ? Result<void>() : Result<void>(report.error());
}

TEST_F(FurnishedHandsTest, CallsOfOneAnswerBringAFileOnce) {
  order("r1", upload("one"), "/a");
  std::array<Result<void>, 8> done;
  linux::TaskGroup calls(*loop_);
  for (Result<void>& each : done) calls.spawn(provision_into(*hands_, each));
  run([](linux::TaskGroup& group) -> Task<int> {
    co_await group.wait_until_empty(kNever);
    co_return 0;
  }(calls));
  for (const Result<void>& each : done) EXPECT_TRUE(each);
  EXPECT_EQ(std::ranges::count(machine_.written, "/a"), 1);
}

}  // namespace
}  // namespace pons::brain
