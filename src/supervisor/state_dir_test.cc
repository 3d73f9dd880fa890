#include "state_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "pons/roles/profile.h"

namespace pons::supervisor {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class StateDirTest : public ::testing::Test {
 protected:
  StateDirTest() {
    char name[] = "/tmp/pons-state-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    scratch_ = name;
  }
  ~StateDirTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }
  std::string path() const { return scratch_ + "/deep/state"; }
  static struct stat status_of(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  static unsigned mode_of(const std::string& path) { return status_of(path).st_mode & 07777; }
  std::string refusal() const {
    const auto opened = StateDir::open(path());
    return opened ? "opened" : opened.error().describe();
  }
  // What ensure_admin_token says about a file that is there already.
  std::string refusal_of_token(std::string_view text, unsigned mode) const {
    const auto state = StateDir::open(path());
    EXPECT_TRUE(state);
    EXPECT_TRUE(linux::write_file_atomically(state->admin_token_path(), text, 0600));
    EXPECT_EQ(chmod(state->admin_token_path().c_str(), mode), 0);
    const auto token = state->ensure_admin_token();
    return token ? "accepted" : token.error().describe();
  }
  std::string scratch_;
};

TEST_F(StateDirTest, MakesFoldersThatOnlyTheirRolesCanEnter) {
  const mode_t before = umask(0);
  const auto state = StateDir::open(path());
  umask(before);
  ASSERT_TRUE(state) << state.error().describe();
  EXPECT_EQ(state->path(), path());
  EXPECT_EQ(mode_of(path()), 0711U);
  EXPECT_EQ(mode_of(path() + "/run"), 0700U);
  EXPECT_EQ(mode_of(path() + "/run/pons.lock"), 0600U);
  for (const roles::Profile& profile : roles::profiles()) {
    const std::string own = fmt::format("{}/{}", path(), profile.name);
    EXPECT_EQ(mode_of(own), 0700U) << own;
    const bool own_user = geteuid() == 0 && profile.role != roles::Role::kSpawner;
    EXPECT_EQ(status_of(own).st_uid, own_user ? roles::uid_of(profile.role) : geteuid()) << own;
  }
}

TEST_F(StateDirTest, SetsRightsThatHaveBecomeTooWideRightAgain) {
  ASSERT_TRUE(StateDir::open(path()));
  for (const char* name : {"", "/run", "/brain", "/spawner"})
    ASSERT_EQ(chmod((path() + name).c_str(), 0777), 0);
  ASSERT_TRUE(StateDir::open(path()));
  EXPECT_EQ(mode_of(path()), 0711U);
  for (const char* name : {"/run", "/brain", "/spawner"})
    EXPECT_EQ(mode_of(path() + name), 0700U) << name;
}

TEST_F(StateDirTest, RefusesALinkInPlaceOfAFolder) {
  const std::string elsewhere = scratch_ + "/elsewhere";
  for (const char* name : {"/brain", "/spawner", "/run"}) {
    ASSERT_TRUE(StateDir::open(path()));
    std::filesystem::remove_all(path() + name);
    std::filesystem::create_directory(elsewhere);
    ASSERT_EQ(chmod(elsewhere.c_str(), 0755), 0);
    std::filesystem::create_symlink(elsewhere, path() + name);
    EXPECT_THAT(refusal(), AnyOf(HasSubstr(name), HasSubstr("other things than Pons' state")));
    EXPECT_EQ(mode_of(elsewhere), 0755U) << "it was followed";
    EXPECT_EQ(status_of(elsewhere).st_uid, geteuid()) << "it was followed";
    std::filesystem::remove(path() + name);
  }
}

TEST_F(StateDirTest, ADirectoryOfOthersKeepsItsOwnerAndRights) {
  std::filesystem::create_directories(path());
  ASSERT_TRUE(linux::write_file_atomically(path() + "/letter", "dear", 0600));
  ASSERT_EQ(chmod(path().c_str(), 01777), 0);
  EXPECT_THAT(refusal(), HasSubstr("other things than Pons' state"));
  EXPECT_EQ(mode_of(path()), 01777U);
  std::filesystem::remove(path() + "/letter");
  EXPECT_EQ(refusal(), "opened") << "an empty directory is free to take";
}

TEST_F(StateDirTest, AnotherUsersDirectoryIsNotTaken) {
  ASSERT_EQ(geteuid(), 0U) << "run the tests as root";
  std::filesystem::create_directories(path());
  ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal(), HasSubstr("belongs to another user"));
  EXPECT_EQ(status_of(path()).st_uid, 65534U);
}

TEST_F(StateDirTest, ATokenThatAnotherUserPlantedIsNotUsed) {
  ASSERT_EQ(geteuid(), 0U) << "run the tests as root";
  const auto state = StateDir::open(path());
  ASSERT_TRUE(state);
  ASSERT_TRUE(linux::write_file_atomically(state->admin_token_path(), std::string(45, 'x'), 0600));
  ASSERT_EQ(chown(state->admin_token_path().c_str(), 65534, 65534), 0);
  EXPECT_FALSE(state->ensure_admin_token());
  std::filesystem::remove(state->admin_token_path());
  ASSERT_TRUE(linux::write_file_atomically(scratch_ + "/planted", std::string(45, 'x'), 0600));
  std::filesystem::create_symlink(scratch_ + "/planted", state->admin_token_path());
  EXPECT_FALSE(state->ensure_admin_token());
}

TEST_F(StateDirTest, RefusesALinkInPlaceOfTheLockFile) {
  ASSERT_TRUE(StateDir::open(path()));
  std::filesystem::remove(path() + "/run/pons.lock");
  ASSERT_TRUE(linux::write_file_atomically(scratch_ + "/victim", "text", 0600));
  std::filesystem::create_symlink(scratch_ + "/victim", path() + "/run/pons.lock");
  EXPECT_THAT(refusal(), HasSubstr("pons.lock"));
  EXPECT_EQ(linux::read_file(scratch_ + "/victim").value_or(""), "text");
}

TEST_F(StateDirTest, RefusesAFileInPlaceOfAFolder) {
  std::filesystem::create_directory(scratch_ + "/deep");
  ASSERT_TRUE(linux::write_file_atomically(path(), "", 0600));
  EXPECT_NE(refusal(), "opened");
}

TEST_F(StateDirTest, TheSecondPonsLearnsThePidOfTheFirst) {
  std::optional<StateDir> first = std::move(*StateDir::open(path()));
  const auto second = StateDir::open(path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr(fmt::format("(pid {})", getpid())));
  EXPECT_THAT(second.error().message, HasSubstr("pons down"));
  first.reset();
  EXPECT_TRUE(StateDir::open(path())) << "the lock outlived its owner";
}

TEST_F(StateDirTest, APlaceThatCannotBeWrittenComesWithAdvice) {
  for (const char* impossible : {"/proc/pons", "/proc/deep/pons", "/proc/deep/deeper/pons"}) {
    const auto refused = StateDir::open(impossible);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, StartsWith("/proc/"));
    EXPECT_THAT(refused.error().message, HasSubstr("--state-dir"));
  }
}

TEST_F(StateDirTest, TheTokenIsMadeOnceAndOnlyTheOwnerReadsIt) {
  const auto state = StateDir::open(path());
  ASSERT_TRUE(state);
  const auto token = state->ensure_admin_token();
  ASSERT_TRUE(token) << token.error().describe();
  EXPECT_THAT(std::string(token->reveal()), StartsWith("pons_"));
  EXPECT_GE(token->size(), 40U);
  EXPECT_EQ(mode_of(state->admin_token_path()), 0600U);
  const auto again = state->ensure_admin_token();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->reveal(), token->reveal());

  std::filesystem::remove(state->admin_token_path());
  const auto fresh = state->ensure_admin_token();
  ASSERT_TRUE(fresh);
  EXPECT_NE(fresh->reveal(), token->reveal());
}

TEST_F(StateDirTest, ATokenOfTheOperatorsChoiceIsTakenWithoutItsLineEnd) {
  const std::string chosen(32, 'x');
  const auto state = StateDir::open(path());
  ASSERT_TRUE(state);
  ASSERT_TRUE(linux::write_file_atomically(state->admin_token_path(), chosen + "\r\n", 0400));
  const auto token = state->ensure_admin_token();
  ASSERT_TRUE(token) << token.error().describe();
  EXPECT_EQ(token->reveal(), chosen);
}

TEST_F(StateDirTest, AWeakTokenIsRefused) {
  for (const std::string& text : {std::string(), std::string("short"), std::string(31, 'x'),
                                  std::string(31, 'x') + std::string(100, '\n')})
    EXPECT_THAT(refusal_of_token(text, 0600), HasSubstr("fewer than 32")) << text;
  EXPECT_NE(refusal_of_token(std::string(5000, 'x'), 0600), "accepted");
}

TEST_F(StateDirTest, ATokenThatOthersCanReadIsRefused) {
  const std::string text(40, 'x');
  for (const unsigned mode : {0640U, 0604U, 0620U, 0666U})
    EXPECT_THAT(refusal_of_token(text, mode), HasSubstr("chmod 600"));
  EXPECT_EQ(refusal_of_token(text, 0600), "accepted");
}

}  // namespace
}  // namespace pons::supervisor
