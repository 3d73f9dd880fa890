// The cell's file programs, run as jobs of an ordinary user.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "cell_client.h"
#include "pons/cell/builtin.h"

namespace pons::cell {
namespace {

struct File {
  FileRecord record;
  std::string name;
  std::string target;
  std::string end;
};

std::vector<File> files_in(const std::string& bytes) {
  std::vector<File> files;
  std::size_t at = 0;
  while (at + sizeof(FileRecord) <= bytes.size()) {
    File file;
    std::memcpy(&file.record, bytes.data() + at, sizeof file.record);
    EXPECT_EQ(file.record.magic, kFileRecordMagic);
    at += sizeof file.record;
    file.name = bytes.substr(at, file.record.name_size);
    file.target = bytes.substr(at + file.record.name_size, file.record.link_size);
    at += file.record.name_size + file.record.link_size;
    file.end = bytes.substr(at, file.record.end_path_size);
    at += file.record.end_path_size + file.record.attributes_size;
    files.push_back(file);
  }
  EXPECT_EQ(at, bytes.size());
  return files;
}

class CellFilesTest : public testing::Test {
 protected:
  CellFilesTest() : client(cell.socket_path()) {
    EXPECT_EQ(client.claim().header.status, Status::kDone);
  }

  Outcome run_as_root(std::vector<std::string> argv) { return run(std::move(argv), {}, "root"); }
  Outcome run(std::vector<std::string> argv, const std::string& input = {},
              const std::string& user = {}) {
    JobOptions options{.argv = std::move(argv), .user = user, .directory = {}, .environment = {}};
    options.start.flags = kBuiltin | kLossless | kInputOpen;
    const std::string job = "file" + std::to_string(count_++);
    const Outcome begin = outcome_of(client.start(job, options));
    std::uint64_t taken = 0;
    while (taken < input.size()) {
      const Reply reply = client.write(job, taken, input.substr(taken, 60'000));
      if (reply.header.status != Status::kDone) break;
      std::memcpy(&taken, reply.payload.data(), sizeof taken);
    }
    client.call(Op::kCloseInput, job);
    return client.read_to_end(job, begin);
  }
  std::string home(const std::string& name) { return cell.home() + "/" + name; }
  Outcome shell(const std::string& line) {
    JobOptions options{.argv = {"sh", "-c", line}, .user = {}, .directory = {}, .environment = {}};
    return client.run("shell" + std::to_string(count_++), options);
  }

  CellUnderTest cell;
  CellClient client;
  int count_ = 0;
};

TEST_F(CellFilesTest, WhatIsWrittenIsRead) {
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes.push_back(static_cast<char>(i * 31 % 256));
  EXPECT_EQ(run({"write", "a/b/file", "0640", "c"}, bytes).state.code, 0);
  EXPECT_TRUE(run({"read", home("a/b/file"), "0", "0"}).output == bytes);
  EXPECT_EQ(run({"read", "a/b/file", "10", "5"}).output, bytes.substr(10, 5));
  EXPECT_EQ(run({"read", "a/b/file", "9000000", "5"}).output, "");
  struct stat status;
  ASSERT_EQ(stat(home("a/b/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1000U);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST_F(CellFilesTest, FlagsOfWriteMeanWhatTheySay) {
  EXPECT_EQ(run({"write", "f", "0644", ""}, "one").state.code, 0);
  EXPECT_EQ(run({"write", "f", "0644", "a"}, "two").state.code, 0);
  EXPECT_EQ(run({"read", "f", "0", "0"}).output, "onetwo");
  EXPECT_EQ(run({"write", "f", "0644", "x"}, "no").state.code, EEXIST);
  EXPECT_EQ(run({"write", "f", "0644", "sx"}, "no").state.code, EEXIST);
  EXPECT_EQ(run({"write", "f", "0600", "s"}, "3").state.code, 0);
  EXPECT_EQ(run({"read", "f", "0", "0"}).output, "3");
  EXPECT_EQ(run({"write", "no/such/f", "0644", ""}, "x").state.code, ENOENT);
  EXPECT_EQ(run({"write", "f", "0644", "z"}, "x").state.code, EINVAL);
  EXPECT_EQ(shell("ls -A").output, "f\n") << "a temporary file was left";
}

TEST_F(CellFilesTest, UserCannotReadOrWriteWhatIsNotItsOwn) {
  EXPECT_EQ(run({"read", "/etc/shadow", "0", "0"}).state.code, EACCES);
  EXPECT_EQ(run({"write", "/usr/pons-test", "0644", ""}, "x").state.code, EACCES);
  EXPECT_EQ(run({"remove", "/etc/hostname"}).state.code, EACCES);
}

TEST_F(CellFilesTest, FifosAndDevicesAreRefusedAtOnce) {
  shell("mkfifo fifo");
  const auto read = run({"read", "fifo", "0", "0"});
  EXPECT_EQ(read.state.code, EINVAL);
  EXPECT_THAT(read.error, testing::HasSubstr("regular file"));
  EXPECT_EQ(run({"write", "fifo", "0644", ""}, "x").state.code, EINVAL);
  EXPECT_EQ(run({"read", "/dev/zero", "0", "0"}).state.code, EINVAL);
  EXPECT_EQ(run({"read", "/", "0", "0"}).state.code, EISDIR);
}

TEST_F(CellFilesTest, StatTellsLinksFromTheirTargets) {
  shell("ln -s /nowhere link; mkdir dir; chmod 751 dir");
  const auto link = files_in(run({"stat", "link"}).output).at(0);
  EXPECT_EQ(link.record.kind, FileKind::kLink);
  EXPECT_EQ(link.target, "/nowhere");
  EXPECT_EQ(link.record.has_end, 0U);
  // By the kernel's way: ".." is the parent of what a link leads to.
  shell("mkdir -p far/lib; printf 123 > far/bar; ln -s ../bar far/lib/foo; ln -s far/lib up");
  const auto through = files_in(run({"stat", "up/foo"}).output).at(0);
  EXPECT_EQ(through.record.has_end, 1U);
  EXPECT_EQ(through.record.end_kind, FileKind::kFile);
  EXPECT_EQ(through.record.end_size, 3U);
  EXPECT_THAT(through.end, testing::EndsWith("/far/bar"));
  EXPECT_EQ(files_in(run({"stat", "up"}).output).at(0).record.end_kind, FileKind::kDirectory);
  const auto dir = files_in(run({"stat", "dir"}).output).at(0);
  EXPECT_EQ(dir.record.kind, FileKind::kDirectory);
  EXPECT_EQ(dir.record.mode, 0751U);
  EXPECT_EQ(run({"stat", "missing"}).state.code, ENOENT);
}

TEST_F(CellFilesTest, ListStopsAtItsDepthAndAtLinks) {
  shell("mkdir -p d/one/two/three; ln -s .. d/loop; touch d/one/f \"d/$(printf '\\377\\nx')\"");
  std::vector<std::string> names;
  for (const auto& file : files_in(run({"list", "d", "2"}).output)) names.push_back(file.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("one", "one/two", "one/f", "loop", "\377\nx"));
  EXPECT_EQ(files_in(run({"list", "d", "1"}).output).size(), 3U);
  EXPECT_EQ(run({"list", "d/one/f", "1"}).state.code, ENOTDIR);
  EXPECT_EQ(run({"list", "missing", "1"}).state.code, ENOENT);
}

TEST_F(CellFilesTest, ListOfManyFilesIsComplete) {
  shell("mkdir many; cd many; seq 20000 | xargs touch");
  EXPECT_EQ(files_in(run({"list", "many", "1"}).output).size(), 20000U);
}

TEST_F(CellFilesTest, HugeNamesWork) {
  const std::string name(255, 'n');
  EXPECT_EQ(run({"write", name, "0644", ""}, "x").state.code, 0);
  EXPECT_EQ(run({"read", name, "0", "0"}).output, "x");
  EXPECT_EQ(files_in(run({"list", ".", "1"}).output).at(0).name, name);
  EXPECT_EQ(run({"read", std::string(256, 'n'), "0", "0"}).state.code, ENAMETOOLONG);
  EXPECT_EQ(run({"read", std::string(10'000, 'n'), "0", "0"}).state.code, ENAMETOOLONG);
}

TEST_F(CellFilesTest, RemoveTakesTheTreeAndNeverFollowsLinks) {
  shell(
      "mkdir -p keep t/a/b t/c; touch keep/me t/a/f t/a/b/g; ln -s ../keep t/link; ln -s keep top");
  EXPECT_EQ(run({"remove", "t"}).state.code, 0);
  EXPECT_EQ(run({"remove", "top"}).state.code, 0);
  EXPECT_EQ(shell("find . | sort").output, ".\n./keep\n./keep/me\n");
  EXPECT_EQ(run({"remove", "t"}).state.code, ENOENT);
}

TEST_F(CellFilesTest, RemoveHandlesDeepTrees) {
  shell("i=0; while [ $i -lt 600 ]; do mkdir dddddddddd; cd dddddddddd; touch x; i=$((i+1)); done");
  EXPECT_EQ(run({"remove", "dddddddddd"}).state.code, 0);
  EXPECT_EQ(shell("ls -A").output, "");
}

// Between making a directory and giving it away its name may come to stand for something else. The
// way to it is long, so that there is time for that.
TEST_F(CellFilesTest, WhatIsGivenAwayIsTheDirectoryThatWasMade) {
  const std::string victim = cell.home() + "/../victim";
  ASSERT_EQ(mkdir(victim.c_str(), 0700), 0);
  std::string detour = ".", path = cell.home() + "/";
  for (int i = 0; i < 1900; ++i) detour += "/.";
  ASSERT_EQ(symlink(detour.c_str(), (path + "l").c_str()), 0);
  for (int i = 0; i < 30; ++i) path += "l/";
  JobOptions attacker{.argv = {"perl", "-e",
                               "while (1) { if (rename 'd', 'e') { symlink '../victim', 'd'; "
                               "select undef, undef, undef, 0.02; unlink 'd'; rmdir 'e' } }"},
                      .user = {},
                      .directory = {},
                      .environment = {}};
  client.start("attacker", attacker);
  for (int i = 0; i < 100; ++i) run_as_root({"mkdir", path + "d", "0777", "worker"});
  client.signal("attacker", SIGKILL, Reach::kGroup);
  struct stat status{};
  ASSERT_EQ(stat(victim.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 0U);
  EXPECT_EQ(status.st_mode & 07777, 0700U);
}

TEST_F(CellFilesTest, MkdirRenameAndChmodAnswerWithTheRecord) {
  EXPECT_EQ(files_in(run({"mkdir", "x/y/z", "0700"}).output).at(0).record.mode, 0700U);
  EXPECT_EQ(run({"mkdir", "x/y/z", "0700"}).state.code, EEXIST);
  EXPECT_EQ(files_in(run({"rename", "x/y/z", "x/moved"}).output).at(0).record.mode, 0700U);
  EXPECT_EQ(run({"rename", "x/y/z", "x/again"}).state.code, ENOENT);
  EXPECT_EQ(files_in(run({"chmod", "x/moved", "0711"}).output).at(0).record.mode, 0711U);
  EXPECT_EQ(run({"chmod", "x/moved", "0999"}).state.code, EINVAL);
  EXPECT_EQ(run({"no-such-builtin"}).state.code, EINVAL);
}

TEST_F(CellFilesTest, WatchSeesChangesAlsoInNewDirectories) {
  shell("mkdir w");
  JobOptions options{.argv = {"watch", "w", "1"}, .user = {}, .directory = {}, .environment = {}};
  options.start.flags = kBuiltin | kLossless;
  ASSERT_EQ(client.start("watch", options).header.status, Status::kDone);
  std::set<std::pair<Change, std::string>> seen;
  std::string bytes;
  // Until the watch is there, nothing is seen: the first change is made again and again.
  for (int i = 0; i < 200 && bytes.empty(); ++i) {
    shell("touch w/first; rm w/first");
    bytes += client.read_once("watch", 0, 0, 50).output;
  }
  shell("mkdir -p w/new/deep; echo x > w/new/deep/file; mv w/new/deep/file w/moved; rm w/moved");
  const std::pair<Change, std::string> last{Change::kRemove, "moved"};
  for (int i = 0; i < 100 && !seen.contains(last); ++i) {
    bytes += client.read_once("watch", bytes.size(), 0, 500).output;
    seen.clear();
    for (std::size_t at = 0; at + sizeof(WatchRecord) <= bytes.size();) {
      WatchRecord record;
      std::memcpy(&record, bytes.data() + at, sizeof record);
      ASSERT_EQ(record.magic, kWatchRecordMagic);
      seen.emplace(record.change, bytes.substr(at + sizeof record, record.name_size));
      at += sizeof record + record.name_size;
    }
  }
  EXPECT_TRUE(seen.contains({Change::kCreate, "new"}));
  EXPECT_TRUE(seen.contains({Change::kCreate, "new/deep"}));
  EXPECT_TRUE(seen.contains({Change::kCreate, "moved"}));
  EXPECT_TRUE(seen.contains(last));
  client.signal("watch", SIGKILL, Reach::kProcess);
  EXPECT_EQ(client.read_to_end("watch").state.ended, Ended::kSignal);
}

}  // namespace
}  // namespace pons::cell
