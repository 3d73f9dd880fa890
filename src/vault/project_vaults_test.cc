#include "pons/vault/project_vaults.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "pons/base/json.h"
#include "pons/vault/credential_auth.h"
#include "vault_entry.h"
#include "vault_fixture.h"

namespace pons::vault {
namespace {

constexpr const char* kVariable =
    R"({"auth":{"type":"environment_variable","secret_name":"TOKEN",)"
    R"("networking":{"type":"limited","allowed_hosts":["api.test.example"]},)"
    R"("injection_location":{"header":true,"body":false}},"display_name":null,"metadata":{}})";
constexpr const char* kBearer =
    R"({"auth":{"type":"static_bearer","mcp_server_url":"https://mcp.test.example/mcp"},)"
    R"("display_name":null,"metadata":{}})";

class ProjectVaultsTest : public VaultTest {
 protected:
  ProjectVaultsTest() { start(); }

  void start() {
    vaults_.reset();
    auto opened = ProjectVaults::open(directory_, *load_or_create_key(directory_), clock_);
    EXPECT_TRUE(opened) << opened.error().describe();
    vaults_ = std::move(*opened);
    vaults_->on_change([this] { ++changes_; });
  }
  VaultPlace make(std::string project = "p") {
    const auto made = vaults_->create(project, R"({"display_name":"v","metadata":{}})");
    EXPECT_TRUE(made);
    return {.project = std::move(project), .vault = made->id};
  }
  Result<VaultRecord> keep(const VaultPlace& place, std::string document = kVariable,
                           std::string_view value = kGithubValue) {
    return vaults_->create_credential(place, std::move(document), {.value = secret(value)});
  }
  std::string all_files() const {
    std::ostringstream all;
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(directory_ + "/project-vaults"))
      if (file.is_regular_file()) all << std::ifstream(file.path(), std::ios::binary).rdbuf();
    return all.str();
  }

  std::unique_ptr<ProjectVaults> vaults_;
  int changes_ = 0;
};

TEST_F(ProjectVaultsTest, WhatIsKeptIsThereAfterARestartAndSealedOnDisk) {
  const VaultPlace place = make();
  const auto made = keep(place);
  ASSERT_TRUE(made) << made.error().describe();
  const auto used = vaults_->find_usable("p", place.vault)->load("TOKEN");
  ASSERT_TRUE(used);
  EXPECT_EQ((*used)->value.reveal(), kGithubValue);
  const std::string stub =
      vaults_->find_usable("p", place.vault)->stub(**used, "sandbox", "session");
  EXPECT_THAT(all_files(), testing::Not(testing::HasSubstr(kGithubValue)));
  EXPECT_THAT(all_files(), testing::Not(testing::HasSubstr("TOKEN")));
  start();
  const auto vault = vaults_->find_usable("p", place.vault);
  ASSERT_TRUE(vault && vault->load("TOKEN"));
  EXPECT_EQ(vault->stub(**vault->load("TOKEN"), "sandbox", "session"), stub);
  EXPECT_EQ(vaults_->find_credential(place, made->id)->document, kVariable);
}

TEST_F(ProjectVaultsTest, AnotherProjectFindsNothing) {
  const VaultPlace place = make();
  const auto made = keep(place);
  const VaultPlace disguised{.project = "q", .vault = place.vault};
  EXPECT_EQ(vaults_->find(disguised).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(vaults_->archive(disguised).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(vaults_->remove(disguised).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(vaults_->find_credential(disguised, made->id).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(keep(disguised).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(vaults_->list("q").empty());
  EXPECT_EQ(vaults_->find_usable("q", place.vault), nullptr);
  EXPECT_EQ(vaults_->find_for_server("q", place.vault, "https://mcp.test.example/mcp"), nullptr);
}

TEST_F(ProjectVaultsTest, TheSameValueInTwoVaultsHasTwoStubs) {
  const VaultPlace one = make(), two = make();
  ASSERT_TRUE(keep(one) && keep(two));
  const auto stub = [&](const VaultPlace& place) {
    const auto vault = vaults_->find_usable("p", place.vault);
    return vault->stub(**vault->load("TOKEN"), "sandbox", "session");
  };
  EXPECT_NE(stub(one), stub(two));
}

TEST_F(ProjectVaultsTest, WhatIsArchivedIsOutOfUseAtOnceAndItsSecretGone) {
  const VaultPlace place = make();
  const auto made = keep(place);
  const auto vault = vaults_->find_usable("p", place.vault);
  changes_ = 0;
  ASSERT_TRUE(vaults_->archive_credential(place, made->id)->archived_unix_ms);
  EXPECT_EQ(changes_, 1);
  EXPECT_FALSE(vault->load("TOKEN"));
  EXPECT_TRUE(keep(place)) << "another may take its place";
  ASSERT_TRUE(vaults_->archive(place));
  EXPECT_FALSE(vault->load("TOKEN"));
  EXPECT_EQ(vaults_->find_usable("p", place.vault), nullptr);
  EXPECT_EQ(keep(place).error().code, ErrorCode::kInvalid);
  start();
  EXPECT_EQ(vaults_->find_usable("p", place.vault), nullptr);
  EXPECT_EQ(vaults_->list_credentials(place)->size(), 2U) << "records stay";
}

TEST_F(ProjectVaultsTest, ADeletedVaultTakesAllOfItAlong) {
  const VaultPlace place = make();
  ASSERT_TRUE(keep(place));
  ASSERT_TRUE(vaults_->remove(place));
  start();
  EXPECT_TRUE(vaults_->list("p").empty());
  EXPECT_TRUE(all_files().empty());
}

TEST_F(ProjectVaultsTest, ANewValueKeepsTheStubAndTheOldOneIsStillLookedFor) {
  const VaultPlace place = make();
  const auto made = keep(place);
  const auto vault = vaults_->find_usable("p", place.vault);
  const std::string stub = vault->stub(**vault->load("TOKEN"), "sandbox", "session");
  ASSERT_TRUE(
      vaults_->update_credential(place, made->id, kVariable, {.value = secret(kOtherValue)}));
  const auto now = *vault->load("TOKEN");
  EXPECT_EQ(now->value.reveal(), kOtherValue);
  EXPECT_EQ(now->previous.reveal(), kGithubValue);
  EXPECT_EQ(vault->stub(*now, "sandbox", "session"), stub);
}

TEST_F(ProjectVaultsTest, OneVariableAndOneServerHaveOneCredential) {
  const VaultPlace place = make();
  ASSERT_TRUE(keep(place));
  EXPECT_EQ(keep(place).error().code, ErrorCode::kConflict);
  ASSERT_TRUE(keep(place, kBearer, kOtherValue));
  EXPECT_EQ(keep(place, kBearer, kOtherValue).error().code, ErrorCode::kConflict);
}

TEST_F(ProjectVaultsTest, AServersTokenIsFoundByItsUrlAndGivenToNoSandbox) {
  const VaultPlace place = make();
  ASSERT_TRUE(keep(place, kBearer));
  for (const char* url : {"https://mcp.test.example/mcp", "https://MCP.test.example:443/mcp/",
                          "https://mcp.test.example/mcp?x=1"}) {
    const auto found = vaults_->find_for_server("p", place.vault, url);
    ASSERT_NE(found, nullptr) << url;
    EXPECT_FALSE(is_for_sandboxes(*found));
  }
  for (const char* url : {"https://mcp.test.example/", "https://mcp.test.example:8443/mcp",
                          "https://else.test.example/mcp", "http://mcp.test.example/mcp", ""})
    EXPECT_EQ(vaults_->find_for_server("p", place.vault, url), nullptr) << url;
}

TEST_F(ProjectVaultsTest, WhatIsRefusedIsNotKept) {
  const VaultPlace place = make();
  EXPECT_FALSE(keep(place, kVariable, "short"));
  EXPECT_TRUE(vaults_->list_credentials(place)->empty());
  EXPECT_TRUE(vaults_->find_usable("p", place.vault)->list().empty());
}

TEST_F(ProjectVaultsTest, ADamagedFileTakesItsOwnCredentialAwayAndNoOther) {
  const VaultPlace place = make();
  const auto made = keep(place);
  ASSERT_TRUE(keep(place, kBearer, kOtherValue));
  std::ofstream(directory_ + "/project-vaults/" + made->id + ".sealed") << "nonsense";
  start();
  EXPECT_EQ(vaults_->damaged().size(), 1U);
  EXPECT_EQ(vaults_->find_usable("p", place.vault)->list().size(), 1U);
}

TEST(CredentialUse, IsBoundToItsHostsInAnyHeader) {
  const Json auth = parse_json(kVariable)->at("auth");
  const auto use = use_of(auth);
  ASSERT_TRUE(use) << use.error().describe();
  EXPECT_EQ(use->name, "TOKEN");
  const Binding& any = use->bindings.front();
  EXPECT_TRUE(any.names_header("X-Own"));
  EXPECT_FALSE(any.names_header("Content-Type"));
  EXPECT_EQ(any.swap_header("key=STUB; STUB", "STUB", "value")->sent, "key=value; value");
  EXPECT_FALSE(any.swap_header("nothing", "STUB", "value"));
}

TEST(VaultEntryText, IsReadAsItWasWrittenAndNothingElseIs) {
  VaultEntry entry{.project = "p",
                   .vault = "vlt_1",
                   .record = {.id = "vcrd_1", .document = "{}", .archived_unix_ms = 7},
                   .secrets = {.value = secret("value"), .client_secret = secret("client")}};
  const Secret plain = encode_entry(entry);
  const auto read = decode_entry("vcrd_1", plain.reveal());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->secrets.value.reveal(), "value");
  EXPECT_TRUE(read->secrets.refresh_token.empty());
  EXPECT_EQ(read->secrets.client_secret.reveal(), "client");
  EXPECT_EQ(read->record.archived_unix_ms, 7);
  for (std::size_t cut = 0; cut < plain.size(); ++cut)
    EXPECT_FALSE(decode_entry("x", plain.reveal().substr(0, cut))) << cut;
}

}  // namespace
}  // namespace pons::vault
