#pragma once

// For tests of this folder: a state directory that goes away, and values that look like real ones.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "pons/base/secret.h"
#include "pons/vault/vault.h"

namespace pons::vault {

inline constexpr std::string_view kGithubValue = "ghp_Zx81mQpL0vTr5Ke9WbYs7NcGd2HjUaFo46iX";
inline constexpr std::string_view kOtherValue = "ghp_n3Vt6JwRk8CzPq1LxDy5MbSh0FgAe9UuTo27";
inline constexpr std::string_view kHexValue = "9f3c07ab52de6148c0b7e19a4d85f263";

inline Secret secret(std::string_view text) {
  return Secret(std::string(text));
}

class VaultTest : public ::testing::Test {
 protected:
  VaultTest() {
    char name[] = "/tmp/pons-vault-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    directory_ = name;
  }
  ~VaultTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::unique_ptr<Vault> open() {
    auto key = load_or_create_key(directory_);
    EXPECT_TRUE(key) << key.error().describe();
    auto vault = Vault::open(directory_, *key, clock_);
    EXPECT_TRUE(vault) << vault.error().describe();
    return std::move(*vault);
  }
  static NewCredential github(std::string_view name = "GITHUB_TOKEN",
                              std::string_view value = kGithubValue) {
    return {.name = std::string(name), .value = secret(value), .bindings = *load_preset("github")};
  }
  std::string sealed_file(std::string_view name = "GITHUB_TOKEN") const {
    return directory_ + "/vault/" + std::string(name) + ".sealed";
  }

  std::string directory_;
  ManualClock clock_;
};

}  // namespace pons::vault
