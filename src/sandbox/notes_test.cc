#include "notes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace pons::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NotesTest : public testing::Test {
 protected:
  ~NotesTest() override { std::filesystem::remove_all(directory_); }

  static SandboxRecord record(std::string id) {
    SandboxRecord record{.id = std::move(id), .key = 7, .template_name = "host"};
    record.spec.template_layers = {spawner::Digest{}};
    return record;
  }
  // What a new warden would find.
  std::vector<std::string> found() const {
    Notes notes(directory_);
    std::vector<std::string> ids;
    for (const Noted& noted : notes.load()) ids.push_back(noted.record.id);
    std::ranges::sort(ids);
    return ids;
  }

  std::string directory_ = [] {
    char path[] = "/tmp/pons-notes-XXXXXX";
    return std::string(mkdtemp(path));
  }();
  Notes notes_{directory_};
};

TEST_F(NotesTest, TheLastRecordWrittenIsFound) {
  Note note = std::move(*notes_.take());
  EXPECT_THAT(found(), IsEmpty());
  for (const char* id : {"one", "two", "three", "four"}) {
    ASSERT_TRUE(note.write(record(id)));
    EXPECT_THAT(found(), ElementsAre(id));
  }
}

TEST_F(NotesTest, ANewWardenGoesOnWhereTheFormerEnded) {
  Note first = std::move(*notes_.take());
  ASSERT_TRUE(first.write(record("one")));
  ASSERT_TRUE(first.write(record("two")));
  Notes later(directory_);
  auto noted = later.load();
  ASSERT_EQ(noted.size(), 1U);
  ASSERT_TRUE(noted[0].note.write(record("three")));
  Note other = std::move(*later.take());
  ASSERT_TRUE(other.write(record("another")));
  EXPECT_THAT(found(), ElementsAre("another", "three"));
}

TEST_F(NotesTest, FilesServeAgainAndRememberNothing) {
  for (int round = 0; round < 100; ++round) {
    Note note = std::move(*notes_.take());
    ASSERT_TRUE(note.write(record("one")));
    ASSERT_TRUE(note.write(record("two")));
    notes_.give_back(std::move(note));
    EXPECT_THAT(found(), IsEmpty());
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(NotesTest, AFileThatWasNotUsedServesAgain) {
  Note used = std::move(*notes_.take());
  ASSERT_TRUE(used.write(record("one")));
  notes_.give_back(std::move(used));
  notes_.give_back(std::move(*notes_.take()));
  EXPECT_THAT(found(), IsEmpty());
  Note again = std::move(*notes_.take());
  ASSERT_TRUE(again.write(record("two")));
  EXPECT_THAT(found(), ElementsAre("two"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(NotesTest, WhatIsNoRecordIsRemoved) {
  std::ofstream(directory_ + "/stranger") << "text";
  std::ofstream(directory_ + "/12") << std::string(5000, 'x');
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/stranger"));
}

// Whatever part of the second record did not reach the file, the first one counts.
TEST_F(NotesTest, ARecordThatWasCutOffDoesNotCount) {
  Note note = std::move(*notes_.take());
  ASSERT_TRUE(note.write(record("whole")));
  ASSERT_TRUE(note.write(record("second, which is cut off somewhere")));
  const linux::UniqueFd file(open((directory_ + "/0").c_str(), O_RDWR | O_CLOEXEC));
  std::string second(4096, '\0');
  ASSERT_GT(pread(file.get(), second.data(), second.size(), 0), 64);
  second.resize(second.find_last_not_of('\0') + 1);
  // The second stands in the place of even numbers, which is the first in the file.
  for (std::size_t cut = 0; cut < second.size(); ++cut) {
    std::string torn = second.substr(0, cut);
    torn.resize(second.size(), '\0');
    ASSERT_EQ(pwrite(file.get(), torn.data(), torn.size(), 0), static_cast<ssize_t>(torn.size()));
    EXPECT_THAT(found(), ElementsAre("whole")) << cut;
  }
}

}  // namespace
}  // namespace pons::sandbox
