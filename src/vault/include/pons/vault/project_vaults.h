#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/vault/sealed_directory.h"
#include "pons/vault/vault.h"

namespace pons::vault {

// A vault, or a credential in one, as its owner may see it.
struct VaultRecord {
  std::string id;
  std::string document;  // JSON, without secrets
  std::int64_t created_unix_ms = 0;
  std::int64_t updated_unix_ms = 0;
  std::optional<std::int64_t> archived_unix_ms = std::nullopt;
};

// What of a credential nobody is shown.
struct CredentialSecrets {
  Secret value;          // what is sent
  Secret refresh_token;  // those two may be empty
  Secret client_secret;
};

struct VaultEntry;

struct VaultPlace {
  std::string project;
  std::string vault;
};

// Vaults that callers of the API keep for the sessions of their project: one sealed file for each
// vault and each credential in `state_directory`/project-vaults, all of them in memory while open.
// One project neither finds nor changes those of another. What is archived keeps its record and
// loses its secrets.
class ProjectVaults {
 public:
  // `key`: the vault's own; files are sealed with one that is derived from it. `clock` outlives it.
  static Result<std::unique_ptr<ProjectVaults>> open(const std::string& state_directory,
                                                     const Secret& key, const Clock& clock);

  // As Vault::reserve().
  void reserve(const std::string& domain);

  Result<VaultRecord> create(const std::string& project, std::string document);
  Result<VaultRecord> find(const VaultPlace& place) const;
  Result<VaultRecord> update(const VaultPlace& place, std::string document);
  Result<VaultRecord> archive(const VaultPlace& place);
  Result<void> remove(const VaultPlace& place);
  std::vector<VaultRecord> list(std::string_view project) const;  // newest first

  // `document` has "auth", whose shape credential_auth.h knows. kConflict when the vault has one
  // for the same variable or the same server.
  Result<VaultRecord> create_credential(const VaultPlace& place, std::string document,
                                        CredentialSecrets secrets);
  Result<VaultRecord> find_credential(const VaultPlace& place, std::string_view id) const;
  // Secrets that are empty stay what they are.
  Result<VaultRecord> update_credential(const VaultPlace& place, std::string_view id,
                                        std::string document, CredentialSecrets secrets);
  Result<VaultRecord> archive_credential(const VaultPlace& place, std::string_view id);
  Result<void> remove_credential(const VaultPlace& place, std::string_view id);
  Result<std::vector<VaultRecord>> list_credentials(const VaultPlace& place) const;
  bool has_refresh_token(const VaultPlace& place, std::string_view id) const;

  // Its credentials, to be used; null when there is no such vault, or it is archived.
  std::shared_ptr<Vault> find_usable(std::string_view project, std::string_view id) const;
  // The one that is for this MCP server; null when the vault has none.
  std::shared_ptr<const Credential> find_for_server(std::string_view project, std::string_view id,
                                                    std::string_view url) const;

  // Hears of each change of what can be used, right after it.
  void on_change(std::function<void()> listener) { listener_ = std::move(listener); }
  // Call it now and then.
  void forget_expired();
  // Files that do not open any more; what was in them is gone until they are restored.
  const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  struct Entry;
  struct Shelf;

  ProjectVaults(SealedDirectory files, const Secret& key, const Clock& clock);
  Result<void> read_files();
  void adopt(std::vector<Entry> credentials);
  std::unique_ptr<Shelf> make_shelf(std::string id, std::string project) const;
  Result<Shelf*> shelf_of(const VaultPlace& place) const;
  // One that may be changed.
  Result<Shelf*> open_shelf_of(const VaultPlace& place) const;
  static Result<Entry*> entry_of(Shelf& shelf, std::string_view id);
  Result<void> write(const VaultEntry& entry);
  Result<VaultRecord> keep(Shelf& shelf, Entry entry);
  void changed() const;
  std::int64_t now_unix_ms() const;

  SealedDirectory files_;
  const Secret key_;
  const Clock& clock_;
  std::string reserved_;
  std::map<std::string, std::unique_ptr<Shelf>, std::less<>> shelves_;  // by id
  std::vector<std::string> damaged_;
  std::function<void()> listener_;

 public:
  ~ProjectVaults();
};

}  // namespace pons::vault
