#include "pons/vault/sealed_directory.h"

#include <sys/stat.h>

#include <gmock/gmock.h>

#include "pons/linux/fd.h"
#include "pons/vault/sealed.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using KeyProof = SealedDirectory::KeyProof;

constexpr std::string_view kPlain = "what nobody else may read";

class SealedDirectoryTest : public VaultTest {
 protected:
  SealedDirectory open_sealed(std::string_view purpose = "test 1", char key = 'k') {
    auto opened =
        SealedDirectory::open(directory_, "sealed", Secret(std::string(kKeyBytes, key)), purpose);
    EXPECT_TRUE(opened) << opened.error().describe();
    return std::move(*opened);
  }
  ErrorCode failure_to_read(const SealedDirectory& files, std::string_view name) {
    const auto read = files.read(name);
    EXPECT_FALSE(read);
    return read ? ErrorCode::kInternal : read.error().code;
  }

  SealedDirectory files_ = open_sealed();
};

TEST_F(SealedDirectoryTest, WhatIsWrittenIsReadAgainAndSealedOnDisk) {
  ASSERT_TRUE(files_.write("a", kPlain));
  EXPECT_EQ(open_sealed().read("a")->reveal(), kPlain);
  EXPECT_THAT(*linux::read_file(files_.file_of("a")), Not(HasSubstr(kPlain)));
}

TEST_F(SealedDirectoryTest, NobodyElseCanListItOrReadItsFiles) {
  ASSERT_TRUE(files_.write("a", kPlain));
  struct stat status{};
  ASSERT_EQ(stat(files_.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(stat(files_.file_of("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(SealedDirectoryTest, AnotherKeyAnotherPurposeAndAnotherNameOpenNothing) {
  ASSERT_TRUE(files_.write("a", kPlain));
  std::filesystem::copy_file(files_.file_of("a"), files_.file_of("b"));
  EXPECT_EQ(failure_to_read(files_, "b"), ErrorCode::kDenied);
  EXPECT_EQ(failure_to_read(open_sealed("test 2"), "a"), ErrorCode::kDenied);
  EXPECT_EQ(failure_to_read(open_sealed("test 1", 'l'), "a"), ErrorCode::kDenied);
  EXPECT_EQ(failure_to_read(files_, "c"), ErrorCode::kNotFound);
}

TEST_F(SealedDirectoryTest, AKeyOfAnotherSizeIsRefused) {
  for (const std::size_t size : {0, 16, 31, 33}) {
    const auto opened =
        SealedDirectory::open(directory_, "other", Secret(std::string(size, 'k')), "test 1");
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalid);
  }
}

TEST_F(SealedDirectoryTest, NamesAreInOrderAndWhatKilledWritersLeftIsRemoved) {
  ASSERT_TRUE(files_.write("b", kPlain));
  ASSERT_TRUE(files_.write("a", kPlain));
  const std::string left = files_.path() + "/c.sealed.x1.tmp";
  const std::string strange = files_.path() + "/notes";
  for (const std::string& file : {left, strange})
    ASSERT_TRUE(linux::write_file_atomically(file, "x", 0600));
  EXPECT_THAT(*files_.names(), ElementsAre("a", "b"));
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(strange));
}

TEST_F(SealedDirectoryTest, WhatCouldNotBeReadAgainForItsSizeIsNotWritten) {
  const std::size_t sealing = seal_bytes(secret(std::string(kKeyBytes, 'k')), "a", "").size();
  const std::string largest(kSealedBytesMax - sealing, 'x');
  ASSERT_TRUE(files_.write("a", largest));
  const auto written = files_.write("a", largest + "y");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kLimit);
  EXPECT_EQ(files_.read("a")->reveal(), largest) << "what was there must stay";
}

TEST_F(SealedDirectoryTest, WhatIsRemovedIsGoneAndCanBeRemovedAgain) {
  ASSERT_TRUE(files_.write("a", kPlain));
  EXPECT_TRUE(files_.remove("a"));
  EXPECT_EQ(failure_to_read(files_, "a"), ErrorCode::kNotFound);
  EXPECT_TRUE(files_.remove("a"));
}

TEST_F(SealedDirectoryTest, TheProofTellsTheKeyFromAnother) {
  EXPECT_EQ(*files_.examine_key_proof(), KeyProof::kNone);
  ASSERT_TRUE(files_.write_key_proof());
  EXPECT_EQ(*files_.examine_key_proof(), KeyProof::kOpens);
  EXPECT_EQ(*open_sealed("test 1", 'l').examine_key_proof(), KeyProof::kDoesNotOpen);
  EXPECT_THAT(*files_.names(), ElementsAre()) << "it is none of the files";
}

}  // namespace
}  // namespace pons::vault
