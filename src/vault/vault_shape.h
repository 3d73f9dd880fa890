#pragma once

#include "pons/api/fields.h"
#include "pons/vault/project_vaults.h"

// Vaults and credentials as the Managed Agents API writes them.

namespace pons::vault {

Result<Json> read_new_vault(const Json& body);
Result<Json> read_changed_vault(const Json& before, const Json& body);
Result<Json> show_vault(const VaultRecord& record);

// Takes every secret out of a body, whose other members may then be quoted. Which were there is
// left behind: true in their places.
Result<CredentialSecrets> take_secrets(Json& body);
// Bodies without their secrets.
Result<Json> read_new_credential(const Json& body);
Result<Json> read_changed_credential(const Json& before, const Json& body);
Result<Json> show_credential(const VaultRecord& record, std::string_view vault);

}  // namespace pons::vault
