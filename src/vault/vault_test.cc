#include "pons/vault/vault.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/linux/fd.h"
#include "pons/vault/sealed.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string everything_below(const std::string& directory) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) all += linux::read_file(entry.path()).value_or("") + "\n";
  return all;
}

TEST_F(VaultTest, WhatIsSetIsThereAfterReopening) {
  ASSERT_TRUE(open()->set(github()));
  const auto vault = open();
  const auto credential = vault->load("GITHUB_TOKEN");
  ASSERT_TRUE(credential);
  EXPECT_EQ((*credential)->value.reveal(), kGithubValue);
  EXPECT_EQ((*credential)->bindings, *load_preset("github"));
  EXPECT_EQ((*credential)->shape, *shape_of(kGithubValue));
  EXPECT_EQ((*credential)->scrub, Scrub::kOn);
  EXPECT_EQ(vault->list().size(), 1U);
  EXPECT_EQ(vault->load("OTHER").error().code, ErrorCode::kNotFound);
}

TEST_F(VaultTest, FilesHoldNoPieceOfAValueOrOfItsDescription) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->rotate("GITHUB_TOKEN", secret(kOtherValue)));
  const std::string all = everything_below(directory_);
  ASSERT_GT(all.size(), 500U);
  for (const std::string_view value : {kGithubValue, kOtherValue}) {
    for (std::size_t at = 0; at + 6 <= value.size(); ++at) {
      const std::string_view piece = value.substr(at, 6);
      EXPECT_THAT(all, Not(HasSubstr(std::string(piece))));
      EXPECT_THAT(all, Not(HasSubstr(base64_encode(piece))));
      EXPECT_THAT(all, Not(HasSubstr(to_hex(piece))));
    }
  }
  for (const char* word : {"GITHUB", "github", "Bearer", "binding", "ghp_", "static"})
    EXPECT_THAT(all, Not(HasSubstr(word)));
}

TEST_F(VaultTest, FilesAreForTheirOwnerOnly) {
  ASSERT_TRUE(open()->set(github()));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
    struct stat status{};
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0U) << entry.path();
  }
}

TEST_F(VaultTest, AnotherKeyOpensNothingAndStartsNothing) {
  ASSERT_TRUE(open()->set(github()));
  const auto wrong = Vault::open(directory_, secret(std::string(kKeyBytes, 'k')), clock_);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kDenied);
  ASSERT_TRUE(open()->remove("GITHUB_TOKEN"));
  EXPECT_FALSE(Vault::open(directory_, secret(std::string(kKeyBytes, 'k')), clock_));
}

TEST_F(VaultTest, AMissingKeyIsNotMadeAnewWhileCredentialsNeedIt) {
  ASSERT_TRUE(open()->set(github()));
  std::filesystem::remove(directory_ + "/vault.key");
  const auto key = load_or_create_key(directory_);
  ASSERT_FALSE(key);
  EXPECT_THAT(key.error().message, HasSubstr("restore it"));
}

TEST_F(VaultTest, AKeyThatOthersCanReadIsRefused) {
  open();
  ASSERT_EQ(chmod((directory_ + "/vault.key").c_str(), 0640), 0);
  EXPECT_EQ(load_or_create_key(directory_).error().code, ErrorCode::kDenied);
}

TEST_F(VaultTest, AKeyOfAnotherSizeIsRefused) {
  ASSERT_TRUE(linux::write_file_atomically(directory_ + "/vault.key", "short", 0600));
  EXPECT_EQ(load_or_create_key(directory_).error().code, ErrorCode::kDenied);
}

TEST_F(VaultTest, APassphraseGivesTheSameKeyAgainAndAnotherOneDoesNot) {
  const auto key = derive_key(directory_, secret("a long enough passphrase"));
  ASSERT_TRUE(key) << key.error().describe();
  ASSERT_TRUE((*Vault::open(directory_, *key, clock_))->set(github()));
  const auto again = derive_key(directory_, secret("a long enough passphrase"));
  EXPECT_EQ(key->reveal(), again->reveal());
  EXPECT_TRUE((*Vault::open(directory_, *again, clock_))->load("GITHUB_TOKEN"));
  const auto other = derive_key(directory_, secret("b long enough passphrase"));
  EXPECT_FALSE(Vault::open(directory_, *other, clock_));
  EXPECT_FALSE(derive_key(directory_, secret("short")));
}

TEST_F(VaultTest, OneDamagedFileIsNamedAndAllOthersWork) {
  {
    const auto vault = open();
    ASSERT_TRUE(vault->set(github()));
    ASSERT_TRUE(vault->set(github("OTHER_TOKEN", kOtherValue)));
  }
  ASSERT_TRUE(linux::write_file_atomically(sealed_file(), "rubbish", 0600));
  const auto vault = open();
  const auto damaged = vault->load("GITHUB_TOKEN");
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kDenied);
  EXPECT_THAT(damaged.error().message, HasSubstr(sealed_file()));
  EXPECT_TRUE(vault->load("OTHER_TOKEN"));
  ASSERT_EQ(vault->damaged().size(), 1U);
  EXPECT_EQ(vault->rotate("GITHUB_TOKEN", secret(kHexValue)).error().code, ErrorCode::kDenied);

  ASSERT_TRUE(vault->set(github()));
  EXPECT_TRUE(vault->load("GITHUB_TOKEN"));
  EXPECT_TRUE(vault->damaged().empty());
}

TEST_F(VaultTest, ADamagedProofOfTheKeyIsMendedWhenACredentialProvesIt) {
  ASSERT_TRUE(open()->set(github()));
  ASSERT_TRUE(linux::write_file_atomically(directory_ + "/vault/key.proof", "rubbish", 0600));
  EXPECT_TRUE(open()->load("GITHUB_TOKEN"));
  EXPECT_FALSE(Vault::open(directory_, secret(std::string(kKeyBytes, 'k')), clock_));
}

TEST_F(VaultTest, AFileUnderAnotherNameDoesNotOpen) {
  ASSERT_TRUE(open()->set(github()));
  std::filesystem::copy_file(sealed_file(), sealed_file("STOLEN"));
  const auto vault = open();
  EXPECT_EQ(vault->load("STOLEN").error().code, ErrorCode::kDenied);
  EXPECT_TRUE(vault->load("GITHUB_TOKEN"));
}

TEST_F(VaultTest, TwoSealsOfTheSameValueHaveNothingInCommon) {
  const Secret key = secret(std::string(kKeyBytes, 'k'));
  EXPECT_NE(seal_bytes(key, "A", kGithubValue).substr(8),
            seal_bytes(key, "A", kGithubValue).substr(8));
}

TEST(SealedTest, EveryTruncationAndEveryFlippedBitIsRefused) {
  const Secret key = secret(std::string(kKeyBytes, 'k'));
  const std::string sealed = seal_bytes(key, "NAME", kGithubValue);
  ASSERT_TRUE(open_bytes(key, "NAME", sealed));
  for (std::size_t size = 0; size < sealed.size(); ++size)
    EXPECT_FALSE(open_bytes(key, "NAME", std::string_view(sealed).substr(0, size))) << size;
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string changed = sealed;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(open_bytes(key, "NAME", changed)) << bit;
  }
  EXPECT_FALSE(open_bytes(key, "NAME", sealed + "x"));
  EXPECT_FALSE(open_bytes(key, "NAM", sealed));
  EXPECT_FALSE(open_bytes(key, "NAME", std::string(kSealedBytesMax + 1, 'x')));
}

// Killed at arbitrary moments: what is there afterwards is one of the two values, whole.
TEST_F(VaultTest, AKilledWriterLeavesTheOldValueOrTheNewOne) {
  ASSERT_TRUE(open()->set(github()));
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto vault = open();
      for (int i = 0;; ++i)
        (void)vault->rotate("GITHUB_TOKEN", secret(i % 2 == 0 ? kOtherValue : kGithubValue));
    }
    usleep(20'000 + static_cast<unsigned>(round) * 3'000);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const auto vault = open();
    const auto credential = vault->load("GITHUB_TOKEN");
    ASSERT_TRUE(credential) << credential.error().describe();
    const std::string_view value = (*credential)->value.reveal();
    EXPECT_TRUE(value == kGithubValue || value == kOtherValue);
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/vault"))
    EXPECT_NE(entry.path().extension(), ".tmp");
}

TEST_F(VaultTest, RotationKeepsStubsAndBindingsAndTheOldValueForAWhile) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  const auto before = *vault->load("GITHUB_TOKEN");
  const std::string stub = vault->stub(*before, "box", "session");
  const std::uint64_t generation = vault->generation();
  clock_.advance(std::chrono::seconds(5));
  ASSERT_TRUE(vault->rotate("GITHUB_TOKEN", secret(kHexValue)));
  const auto after = *vault->load("GITHUB_TOKEN");
  EXPECT_EQ(after->value.reveal(), kHexValue);
  EXPECT_EQ(after->previous.reveal(), kGithubValue);
  EXPECT_EQ(after->bindings, before->bindings);
  EXPECT_EQ(after->rotated_unix_ms, before->rotated_unix_ms + 5000);
  EXPECT_EQ(vault->stub(*after, "box", "session"), stub);
  EXPECT_EQ(before->value.reveal(), kGithubValue) << "a request keeps what it began with";
  EXPECT_GT(vault->generation(), generation);

  clock_.advance(kDefaultGrace - std::chrono::seconds(1));
  ASSERT_TRUE(vault->forget_expired());
  EXPECT_FALSE((*vault->load("GITHUB_TOKEN"))->previous.empty());
  clock_.advance(std::chrono::seconds(1));
  ASSERT_TRUE(vault->forget_expired());
  EXPECT_TRUE((*vault->load("GITHUB_TOKEN"))->previous.empty());
  EXPECT_TRUE((*open()->load("GITHUB_TOKEN"))->previous.empty());
  EXPECT_EQ((*open()->load("GITHUB_TOKEN"))->value.reveal(), kHexValue);
}

TEST_F(VaultTest, RotationRefusesWhatSettingRefuses) {
  const auto vault = open();
  EXPECT_EQ(vault->rotate("GITHUB_TOKEN", secret(kOtherValue)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(vault->set(github()));
  EXPECT_FALSE(vault->rotate("GITHUB_TOKEN", secret("short")));
  EXPECT_FALSE(vault->rotate("GITHUB_TOKEN", secret(kGithubValue)));
  EXPECT_FALSE(vault->rotate("GITHUB_TOKEN", secret(kOtherValue), std::chrono::hours(24 * 31)));
  EXPECT_FALSE(vault->rotate("GITHUB_TOKEN", secret(kOtherValue), -std::chrono::hours(1)));
  EXPECT_EQ((*vault->load("GITHUB_TOKEN"))->value.reveal(), kGithubValue);
}

TEST_F(VaultTest, AReplacedValueIsStillScrubbed) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->set(github("GITHUB_TOKEN", kOtherValue)));
  EXPECT_EQ((*vault->load("GITHUB_TOKEN"))->previous.reveal(), kGithubValue);
}

TEST_F(VaultTest, ARemovedCredentialIsGoneEverywhere) {
  auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  int heard = 0;
  vault->on_change([&] { ++heard; });
  ASSERT_TRUE(vault->remove("GITHUB_TOKEN"));
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(vault->load("GITHUB_TOKEN").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(sealed_file()));
  EXPECT_EQ(vault->remove("GITHUB_TOKEN").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(open()->list().empty());
}

TEST_F(VaultTest, ARemovedCredentialIsLookedForDuringTheGraceTime) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->remove("GITHUB_TOKEN"));
  ASSERT_EQ(vault->former().size(), 1U);
  EXPECT_EQ(vault->former()[0]->value.reveal(), kGithubValue);
  EXPECT_EQ(vault->former()[0]->bindings, *load_preset("github"));
  clock_.advance(kDefaultGrace - std::chrono::seconds(1));
  ASSERT_TRUE(vault->forget_expired());
  EXPECT_EQ(vault->former().size(), 1U);
  const std::uint64_t generation = vault->generation();
  clock_.advance(std::chrono::seconds(1));
  ASSERT_TRUE(vault->forget_expired());
  EXPECT_TRUE(vault->former().empty());
  EXPECT_GT(vault->generation(), generation);
}

TEST_F(VaultTest, EveryValueOfSeveralRotationsIsLookedFor) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->rotate("GITHUB_TOKEN", secret(kOtherValue)));
  clock_.advance(std::chrono::minutes(30));
  ASSERT_TRUE(vault->rotate("GITHUB_TOKEN", secret(kHexValue)));
  EXPECT_EQ((*vault->load("GITHUB_TOKEN"))->previous.reveal(), kOtherValue);
  ASSERT_EQ(vault->former().size(), 1U);
  EXPECT_EQ(vault->former()[0]->previous.reveal(), kGithubValue);
  clock_.advance(std::chrono::minutes(30));
  ASSERT_TRUE(vault->forget_expired());
  EXPECT_TRUE(vault->former().empty());
  EXPECT_EQ((*vault->load("GITHUB_TOKEN"))->previous.reveal(), kOtherValue);
}

// Somebody sets the machine's time.
class SetClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::hours(24) + passed); }
  WallTime wall() const override { return WallTime(std::chrono::hours(1000) + passed + set_by); }
  Duration passed{};
  Duration set_by{};
};

TEST_F(VaultTest, SettingTheTimeNeitherEndsNorProlongsAGraceTime) {
  SetClock clock;
  const auto vault = *Vault::open(directory_, *load_or_create_key(directory_), clock);
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->rotate("GITHUB_TOKEN", secret(kOtherValue)));
  const auto is_known = [&] {
    EXPECT_TRUE(vault->forget_expired());
    return !(*vault->load("GITHUB_TOKEN"))->previous.empty();
  };
  clock.set_by = 2 * kDefaultGrace;
  EXPECT_TRUE(is_known());
  clock.set_by = -2 * kDefaultGrace;
  clock.passed = kDefaultGrace;
  EXPECT_FALSE(is_known());
}

TEST_F(VaultTest, WhatAFormerCredentialWasBoundToIsKnownForAWhile) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  NewCredential moved = github();
  moved.bindings = *load_preset("slack");
  ASSERT_TRUE(vault->set(std::move(moved)));
  ASSERT_EQ(vault->former().size(), 1U);
  EXPECT_EQ(vault->former()[0]->bindings, *load_preset("github"));
}

TEST_F(VaultTest, AFormerValueStandsInNobodysWay) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  ASSERT_TRUE(vault->remove("GITHUB_TOKEN"));
  EXPECT_TRUE(vault->set(github("LONGER", std::string(kGithubValue) + "Q7")));
  EXPECT_TRUE(vault->former().empty()) << "which of the two it is could not be told";
}

TEST_F(VaultTest, NothingIsBoundToNamesOfSandboxes) {
  auto vault = open();
  vault->reserve("box.example.com");
  const auto bound_to = [](std::string_view name, std::string host) {
    NewCredential wanted = github(name);
    wanted.bindings = {*parse_binding_text("host=" + host)};
    return wanted;
  };
  for (const char* host :
       {"box.example.com", "8080-a.box.example.com", "*.box.example.com", "a.b.box.example.com"})
    EXPECT_EQ(vault->set(bound_to("A", host)).error().code, ErrorCode::kInvalid) << host;
  EXPECT_TRUE(vault->set(bound_to("A", "example.com")));
  EXPECT_TRUE(vault->set(bound_to("B", "xbox.example.com")));
  // One that was before the name was theirs is not used any more.
  vault = open();
  vault->reserve("xbox.example.com");
  EXPECT_TRUE(vault->load("A"));
  EXPECT_EQ(vault->load("B").error().code, ErrorCode::kDenied);
  EXPECT_EQ(vault->list().size(), 1U);
}

TEST_F(VaultTest, NamesThatLeaveTheDirectoryOrAreNoVariablesAreRefused) {
  const auto vault = open();
  for (const char* name : {"", "lower", "1ST", "../X", "A/B", "A.B", "A B", "A-B", "Ä"})
    EXPECT_EQ(vault->set(github(name)).error().code, ErrorCode::kInvalid) << name;
  EXPECT_FALSE(vault->set(github(std::string(129, 'A'))));
  EXPECT_TRUE(vault->set(github(std::string(128, 'A'))));
  EXPECT_TRUE(vault->set(github("_")));
}

TEST_F(VaultTest, ACredentialWithoutABindingIsRefused) {
  EXPECT_FALSE(open()->set({.name = "X", .value = secret(kGithubValue), .bindings = {}}));
}

TEST_F(VaultTest, AValueInsideAnotherIsRefusedAndTheSameUnderTwoNamesIsNot) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  const std::string longer = std::string(kGithubValue) + "Q7";
  EXPECT_EQ(vault->set(github("LONGER", longer)).error().code, ErrorCode::kConflict);
  EXPECT_EQ(vault->set(github("PIECE", kGithubValue.substr(4, 26))).error().code,
            ErrorCode::kConflict);
  EXPECT_TRUE(vault->set(github("GH_TOKEN")));
}

TEST_F(VaultTest, MetadataShowsNothingOfTheValueButItsPrefixAndLength) {
  const auto vault = open();
  ASSERT_TRUE(vault->set(github()));
  const std::string text = dump_json(metadata(**vault->load("GITHUB_TOKEN")));
  EXPECT_THAT(text, HasSubstr("\"redacted\":\"ghp_…\""));
  for (std::size_t at = 4; at + 4 <= kGithubValue.size(); ++at)
    EXPECT_THAT(text, Not(HasSubstr(std::string(kGithubValue.substr(at, 4)))));
}

}  // namespace
}  // namespace pons::vault
