#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/vault/project_vaults.h"

// What a sealed file of ProjectVaults holds: sizes, a description as JSON, and the secrets apart
// from it, so that no JSON ever holds one.

namespace pons::vault {

struct VaultEntry {
  std::string project;
  std::string vault;  // that a credential is in; empty: it is a vault itself
  VaultRecord record;
  CredentialSecrets secrets = {};
};

Secret encode_entry(const VaultEntry& entry);
Result<VaultEntry> decode_entry(std::string id, std::string_view plain);

// The same bytes once more: secrets are moved, never copied by accident.
Secret copy_of(const Secret& secret);

}  // namespace pons::vault
