#include "libraries.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <set>

#include "elf.h"
#include "pons/linux/fd.h"

namespace pons::templates {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kProgram = "/bin/ls";

Result<std::optional<ElfNeeds>> needs_of_bytes(std::string_view bytes) {
  const linux::UniqueFd file(memfd_create("program", MFD_CLOEXEC));
  EXPECT_TRUE(linux::write_all(file.get(), bytes));
  return read_elf_needs(file.get());
}

TEST(Elf, TellsTheLinkerAndTheLibraries) {
  const auto needs = needs_of_bytes(*linux::read_file(kProgram));
  ASSERT_TRUE(needs && *needs);
  EXPECT_THAT((*needs)->interpreter, HasSubstr("/ld-linux"));
  EXPECT_THAT((*needs)->libraries, Contains("libc.so.6"));
}

TEST(Elf, AnythingElseIsNone) {
  for (const char* text : {"", "#!/bin/sh\n",
                           "\x7f"
                           "ELF",
                           "\x7f"
                           "ELF\x01\x01\x01"}) {
    const auto needs = needs_of_bytes(text);
    ASSERT_TRUE(needs);
    EXPECT_FALSE(*needs);
  }
}

TEST(Elf, DamagedHeadersAreAnErrorAndNothingWorse) {
  const std::string program = *linux::read_file(kProgram);
  for (std::size_t size = 64; size < 4096; size += 61)
    (void)needs_of_bytes(program.substr(0, size));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = program.substr(0, 16384);
    for (int changes = 0; changes < 4; ++changes)
      damaged[random() % 1024] = static_cast<char>(random());
    (void)needs_of_bytes(damaged);
  }
}

TEST(Libraries, AreAllThatIsNeededInOneDirectoryOfTheLinker) {
  const auto found = find_libraries(kProgram, "");
  ASSERT_TRUE(found) << found.error().describe();
  std::set<std::string> directories;
  std::size_t linkers = 0;
  for (const auto& [place, path] : *found) {
    EXPECT_FALSE(place.starts_with('/'));
    EXPECT_EQ(access(path.c_str(), R_OK), 0) << path;
    if (place.find("/ld-linux") == std::string::npos)
      directories.insert(fs::path(place).parent_path());
    else
      ++linkers;
  }
  EXPECT_EQ(directories.size(), 1U);
  EXPECT_EQ(linkers, 1U);
  EXPECT_THAT(*found, Contains(testing::Key(*directories.begin() + "/libc.so.6")));
}

TEST(Libraries, AProgramForNoMachineIsRefused) {
  EXPECT_EQ(find_libraries("/etc/passwd", "").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(find_libraries("/nowhere", "").error().code, ErrorCode::kInvalid);
}

// A root directory in which only some of what the program asks for is there.
TEST(Libraries, OneThatTheHostLacksIsNamed) {
  char name[] = "/tmp/pons-root-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string root = name;
  const auto all = find_libraries(kProgram, "");
  ASSERT_TRUE(all);
  EXPECT_THAT(find_libraries(kProgram, root).error().message, HasSubstr("/ld-linux"));
  for (const auto& [place, path] : *all) {
    fs::create_directories(fs::path(root + "/" + place).parent_path());
    fs::copy_file(path, root + "/" + place);
  }
  fs::create_directories(root + "/etc/ld.so.conf.d");
  for (const auto& [place, path] : *all)
    if (place.ends_with("/libc.so.6"))
      EXPECT_TRUE(linux::write_file_atomically(
          root + "/etc/ld.so.conf.d/here.conf",
          "# here\n/" + fs::path(place).parent_path().string() + "  # and nowhere else\n", 0644));
  EXPECT_TRUE(linux::write_file_atomically(
      root + "/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n",
      0644));
  EXPECT_EQ(find_libraries(kProgram, root)->size(), all->size());
  for (const auto& [place, path] : *all)
    if (place.ends_with("/libc.so.6")) fs::remove(root + "/" + place);
  const auto refused = find_libraries(kProgram, root);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("libc.so.6"));
  fs::remove_all(root);
}

}  // namespace
}  // namespace pons::templates
