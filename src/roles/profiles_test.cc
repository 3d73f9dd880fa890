#include "pons/roles/profile.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>

#include <algorithm>
#include <set>

#include "pons/roles/attempts.h"
#include "syscalls.h"

namespace pons::roles {
namespace {

bool has(const Profile& profile, Syscalls group) {
  return std::ranges::find(profile.syscalls, group) != profile.syscalls.end();
}

std::set<std::string_view> attempt_names(const Profile& profile) {
  std::set<std::string_view> names;
  for (const Attempt* attempt : attempts_for(profile)) names.insert(attempt->name);
  return names;
}

// ---- the table of profiles

TEST(ProfilesTest, EveryRoleStandsOnceAtItsPlaceUnderItsName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    const Profile& profile = profiles()[i];
    EXPECT_EQ(static_cast<std::size_t>(profile.role), i);
    EXPECT_EQ(&profile_of(profile.role), &profile);
    EXPECT_EQ(find_role(profile.name), profile.role);
    EXPECT_FALSE(profile.purpose.empty());
    names.insert(profile.name);
  }
  EXPECT_EQ(names.size(), kRoleCount);
  EXPECT_FALSE(find_role(""));
  EXPECT_FALSE(find_role("supervisor"));
  EXPECT_FALSE(find_role("Brain"));
}

TEST(ProfilesTest, NamesAreSafeAsFoldersAndSettings) {
  for (const Profile& profile : profiles())
    EXPECT_EQ(profile.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), std::string_view::npos);
}

TEST(ProfilesTest, NobodyDialsItselfOrAnyoneTwice) {
  for (const Profile& profile : profiles()) {
    EXPECT_EQ(std::ranges::find(profile.may_dial, profile.role), profile.may_dial.end());
    const std::set<Role> once(profile.may_dial.begin(), profile.may_dial.end());
    EXPECT_EQ(once.size(), profile.may_dial.size()) << profile.name;
  }
}

TEST(ProfilesTest, OnlyTheWardenReachesTheSpawner) {
  for (const Profile& profile : profiles()) {
    const bool reaches =
        std::ranges::find(profile.may_dial, Role::kSpawner) != profile.may_dial.end();
    EXPECT_EQ(reaches, profile.role == Role::kWarden) << profile.name;
  }
}

TEST(ProfilesTest, TheBrainReadsTimeZonesAndNothingElseThatIsNotItsOwn) {
  EXPECT_EQ(profile_of(Role::kBrain).read_only,
            (std::vector<std::string_view>{"/usr/share/zoneinfo"}));
}

TEST(ProfilesTest, OnlyTheSpawnerHasCapabilitiesAndNoneThatOwnsTheMachine) {
  for (const Profile& profile : profiles())
    EXPECT_EQ(profile.capabilities != 0, profile.role == Role::kSpawner) << profile.name;
  for (const int forbidden :
       {CAP_SYS_PTRACE, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_SYSLOG,
        CAP_BPF, CAP_PERFMON, CAP_NET_RAW, CAP_DAC_READ_SEARCH, CAP_MAC_ADMIN, CAP_AUDIT_CONTROL})
    EXPECT_EQ(profile_of(Role::kSpawner).capabilities & linux::capability(forbidden), 0U)
        << forbidden;
  EXPECT_EQ(profile_of(Role::kSpawner).capabilities & ~supervisor_capabilities(), 0U);
}

TEST(ProfilesTest, WhoHasNoInternetHasNoNetworkEither) {
  for (const Profile& profile : profiles())
    EXPECT_EQ(has(profile, Syscalls::kInternet), profile.network == Network::kHost) << profile.name;
  for (const Role role : {Role::kFront, Role::kBrain, Role::kWarden, Role::kSpawner})
    EXPECT_EQ(profile_of(role).network, Network::kEmptyNamespace) << name_of(role);
}

TEST(ProfilesTest, FrontOpensNoFiles) {
  EXPECT_FALSE(has(profile_of(Role::kFront), Syscalls::kFiles));
  EXPECT_TRUE(profile_of(Role::kFront).read_only.empty());
}

TEST(ProfilesTest, OnlyTheSpawnerHasADenyListAndItsOwnMounts) {
  for (const Profile& profile : profiles()) {
    const bool spawner = profile.role == Role::kSpawner;
    EXPECT_EQ(profile.syscalls.empty(), spawner) << profile.name;
    EXPECT_EQ(profile.files == Files::kMinimalMounts, spawner) << profile.name;
    if (!spawner) EXPECT_TRUE(has(profile, Syscalls::kRun)) << profile.name;
  }
}

TEST(ProfilesTest, EverySyscallGroupIsUsedAndNeverTwiceByOne) {
  std::set<Syscalls> used;
  for (const Profile& profile : profiles()) {
    const std::set<Syscalls> own(profile.syscalls.begin(), profile.syscalls.end());
    EXPECT_EQ(own.size(), profile.syscalls.size()) << profile.name;
    used.insert(own.begin(), own.end());
  }
  EXPECT_EQ(used,
            (std::set{Syscalls::kRun, Syscalls::kConverse, Syscalls::kFiles, Syscalls::kInternet}));
}

TEST(ProfilesTest, ReadablePathsAreAbsoluteAndHoldNoSecrets) {
  for (const Profile& profile : profiles()) {
    for (const std::string_view path : profile.read_only) {
      EXPECT_TRUE(path.starts_with('/') && path.size() > 1) << path;
      EXPECT_EQ(path.find(".."), std::string_view::npos) << path;
      for (const std::string_view secret : {"/etc/shadow", "/root", "/home", "/var", "/proc"})
        EXPECT_FALSE(std::string(secret).starts_with(path) || path.starts_with(secret)) << path;
    }
  }
}

TEST(ProfilesTest, EveryRoleIsAUserOfItsOwn) {
  std::set<uid_t> users;
  for (const Profile& profile : profiles()) users.insert(uid_of(profile.role));
  EXPECT_EQ(users.size(), kRoleCount);
  EXPECT_FALSE(users.contains(0));
}

TEST(FilterTest, CompilesForEveryProfileWithinTheKernelsLimit) {
  for (const Profile& profile : profiles()) {
    const auto filter = make_filter(profile);
    ASSERT_TRUE(filter) << profile.name << ": " << filter.error().describe();
    EXPECT_GT(filter->size(), 20U) << profile.name;
    EXPECT_LE(filter->size(), static_cast<std::size_t>(BPF_MAXINSNS)) << profile.name;
  }
}

// ---- attempts

TEST(AttemptsTest, ComeInAFixedOrderUnderNamesOfTheirOwn) {
  for (const Profile& profile : profiles()) {
    const auto attempts = attempts_for(profile);
    EXPECT_EQ(attempts, attempts_for(profile)) << profile.name;
    EXPECT_EQ(attempt_names(profile).size(), attempts.size()) << profile.name;
    for (const Attempt* attempt : attempts) {
      EXPECT_FALSE(attempt->name.empty() || attempt->promise.empty());
      EXPECT_NE(attempt->attempt, nullptr);
    }
  }
}

TEST(AttemptsTest, WhoeverMayWriteFilesTriesItsOwnState) {
  for (const Profile& profile : profiles())
    EXPECT_EQ(attempt_names(profile).contains("own_state"), has(profile, Syscalls::kFiles))
        << profile.name;
}

TEST(AttemptsTest, TheInternetIsTriedByEveryFilteredRole) {
  for (const Profile& profile : profiles()) {
    if (profile.syscalls.empty()) continue;
    const auto names = attempt_names(profile);
    const bool online = profile.network == Network::kHost;
    EXPECT_EQ(names.contains("internet"), online) << profile.name;
    EXPECT_EQ(names.contains("ipv4_socket"), !online) << profile.name;
    EXPECT_EQ(names.contains("ipv6_socket"), !online) << profile.name;
  }
}

TEST(AttemptsTest, EveryRoleTriesTheSecretsOfTheOthers) {
  for (const Profile& profile : profiles())
    for (const char* name : {"read_admin_token", "read_other_state", "read_shadow", "read_proc",
                             "trace_supervisor", "capabilities", "write_outside"})
      EXPECT_TRUE(attempt_names(profile).contains(name)) << profile.name << " " << name;
}

TEST(JudgeTest, AForbiddenThingHoldsOnlyWhenItFailed) {
  const Attempt forbidden{"execve", "cannot start a program", nullptr, Attempt::Must::kFail};
  EXPECT_TRUE(judge(forbidden, EPERM).holds);
  EXPECT_TRUE(judge(forbidden, EACCES).holds);
  EXPECT_FALSE(judge(forbidden, 0).holds);
  EXPECT_EQ(judge(forbidden, 0).answer(), "it worked");
  EXPECT_EQ(judge(forbidden, EPERM).name, "execve");
  EXPECT_EQ(judge(forbidden, EPERM).promise, "cannot start a program");
  EXPECT_EQ(judge(forbidden, EPERM).answer(), "EPERM (Operation not permitted)");
}

TEST(JudgeTest, WorkHoldsOnlyWhenItWorked) {
  const Attempt work{"own_state", "can write", nullptr, Attempt::Must::kWork};
  EXPECT_TRUE(judge(work, 0).holds);
  EXPECT_FALSE(judge(work, EACCES).holds);
}

TEST(JudgeTest, AnErrorWithoutANameIsStillAnAnswer) {
  const Attempt forbidden{"x", "y", nullptr, Attempt::Must::kFail};
  EXPECT_EQ(judge(forbidden, 4000).answer(), "error 4000");
  EXPECT_EQ(judge(forbidden, -1).answer(), "error -1");
}

}  // namespace
}  // namespace pons::roles
