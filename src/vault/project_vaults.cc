#include "pons/vault/project_vaults.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "layout.h"
#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/vault/credential_auth.h"
#include "vault_entry.h"

namespace pons::vault {

namespace {

constexpr std::string_view kDirectory = "project-vaults";
constexpr std::size_t kIdLength = 26;
constexpr std::size_t kVaultsMax = 200;   // of a project
constexpr std::size_t kPerVaultMax = 64;  // credentials
constexpr std::size_t kAllVaultsMax = 4'096;

Error none(std::string_view what) {
  return make_error(ErrorCode::kNotFound, "find vault",
                    fmt::format("there is no {} of this id", what));
}
Error archived(std::string_view what) {
  return make_error(ErrorCode::kInvalid, "change vault",
                    fmt::format("the {} is archived: it can be read, and no longer changed", what));
}

// Of a credential that no sandbox gets to see, in its vault.
std::string name_for_server(std::string_view id) {
  std::string name = fmt::format("{}{}", kNotForSandboxes, id);
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return name;
}

bool is_newer(const VaultRecord& one, const VaultRecord& other) {
  return std::tie(one.created_unix_ms, one.id) > std::tie(other.created_unix_ms, other.id);
}

}  // namespace

struct ProjectVaults::Entry {
  VaultEntry kept;
  CredentialUse use;
};

struct ProjectVaults::Shelf {
  VaultEntry kept;
  std::shared_ptr<Vault> vault;  // what of it can be used
  std::map<std::string, Entry, std::less<>> entries;

  bool is_archived() const { return kept.record.archived_unix_ms.has_value(); }
  void take_from_use(const Entry& entry) const { (void)vault->remove(entry.use.name); }
  // What a host was sent before is looked for during a grace time.
  Result<void> put_to_use(const Entry& entry) const {
    const auto before = vault->load(entry.use.name);
    Secret value = copy_of(entry.kept.secrets.value);
    if (before && (*before)->bindings == entry.use.bindings) {
      if ((*before)->value.reveal() == value.reveal()) return {};
      return vault->rotate(entry.use.name, std::move(value));
    }
    return vault->set(
        {.name = entry.use.name, .value = std::move(value), .bindings = entry.use.bindings});
  }
};

ProjectVaults::ProjectVaults(SealedDirectory files, const Secret& key, const Clock& clock)
    : files_(std::move(files)), key_(copy_of(key)), clock_(clock) {}
ProjectVaults::~ProjectVaults() = default;

// ---- at the start

Result<std::unique_ptr<ProjectVaults>> ProjectVaults::open(const std::string& state_directory,
                                                           const Secret& key, const Clock& clock) {
  auto files =
      TRY(SealedDirectory::open(state_directory, kDirectory, key, "pons project vaults 1"));
  std::unique_ptr<ProjectVaults> vaults(new ProjectVaults(std::move(files), key, clock));
  TRY_VOID(vaults->read_files());
  return vaults;
}

void ProjectVaults::reserve(const std::string& domain) {
  reserved_ = domain;
  for (const auto& shelf : shelves_) shelf.second->vault->reserve(domain);
}

Result<void> ProjectVaults::read_files() {
  std::vector<Entry> credentials;
  for (const std::string& id : TRY(files_.names())) {
    const auto plain = files_.read(id);
    auto entry = plain ? decode_entry(id, plain->reveal()) : Result<VaultEntry>(plain.error());
    if (!entry) {
      damaged_.push_back(files_.file_of(id));
    } else if (entry->vault.empty()) {
      auto shelf = make_shelf(id, entry->project);
      shelf->kept = std::move(*entry);
      shelves_[id] = std::move(shelf);
    } else {
      credentials.push_back({.kept = std::move(*entry), .use = {}});
    }
  }
  adopt(std::move(credentials));
  return {};
}

// One whose vault is gone was about to be removed with it.
void ProjectVaults::adopt(std::vector<Entry> credentials) {
  for (Entry& entry : credentials) {
    const std::string id = entry.kept.record.id;
    const auto shelf = shelves_.find(entry.kept.vault);
    if (shelf == shelves_.end()) {
      (void)files_.remove(id);
      continue;
    }
    const auto document = parse_json(entry.kept.record.document);
    auto use = document && document->contains("auth") ? use_of(document->at("auth"))
                                                      : Result<CredentialUse>(none("auth"));
    if (use && use->name.empty()) use->name = name_for_server(id);
    if (use) entry.use = std::move(*use);
    const bool is_live = !entry.kept.record.archived_unix_ms && !shelf->second->is_archived();
    if (!use || (is_live && !shelf->second->put_to_use(entry)))
      damaged_.push_back(files_.file_of(id));
    shelf->second->entries.emplace(id, std::move(entry));
  }
}

std::unique_ptr<ProjectVaults::Shelf> ProjectVaults::make_shelf(std::string id,
                                                                std::string project) const {
  auto shelf = std::make_unique<Shelf>();
  // Stubs of one vault say nothing about those of another.
  shelf->vault = Vault::in_memory(subkey(key_, "pons project vault " + id), clock_);
  shelf->vault->reserve(reserved_);
  shelf->kept.project = std::move(project);
  shelf->kept.record.id = std::move(id);
  return shelf;
}

// ---- vaults

Result<ProjectVaults::Shelf*> ProjectVaults::shelf_of(const VaultPlace& place) const {
  const auto found = shelves_.find(place.vault);
  if (found == shelves_.end() || found->second->kept.project != place.project) return none("vault");
  return found->second.get();
}

Result<ProjectVaults::Shelf*> ProjectVaults::open_shelf_of(const VaultPlace& place) const {
  Shelf* shelf = TRY(shelf_of(place));
  if (shelf->is_archived()) return archived("vault");
  return shelf;
}

Result<VaultRecord> ProjectVaults::create(const std::string& project, std::string document) {
  if (shelves_.size() >= kAllVaultsMax || list(project).size() >= kVaultsMax)
    return make_error(ErrorCode::kLimit, "create vault",
                      fmt::format("a project has at most {} vaults", kVaultsMax));
  auto shelf = make_shelf("vlt_" + random_text(kIdLength), project);
  shelf->kept.record.document = std::move(document);
  shelf->kept.record.created_unix_ms = shelf->kept.record.updated_unix_ms = now_unix_ms();
  TRY_VOID(write(shelf->kept));
  VaultRecord record = shelf->kept.record;
  shelves_[record.id] = std::move(shelf);
  return record;
}

Result<VaultRecord> ProjectVaults::find(const VaultPlace& place) const {
  return TRY(shelf_of(place))->kept.record;
}

Result<VaultRecord> ProjectVaults::update(const VaultPlace& place, std::string document) {
  Shelf* shelf = TRY(open_shelf_of(place));
  const VaultRecord before = shelf->kept.record;
  shelf->kept.record.document = std::move(document);
  shelf->kept.record.updated_unix_ms = now_unix_ms();
  if (auto written = write(shelf->kept); !written) {
    shelf->kept.record = before;
    return written.error();
  }
  return shelf->kept.record;
}

// Out of use at once, whatever becomes of the files; what could not be written is said.
Result<VaultRecord> ProjectVaults::archive(const VaultPlace& place) {
  Shelf* shelf = TRY(shelf_of(place));
  if (shelf->is_archived()) return shelf->kept.record;
  for (auto& [id, entry] : shelf->entries) {
    shelf->take_from_use(entry);
    entry.kept.secrets = {};
    if (!entry.kept.record.archived_unix_ms) entry.kept.record.archived_unix_ms = now_unix_ms();
  }
  shelf->kept.record.archived_unix_ms = shelf->kept.record.updated_unix_ms = now_unix_ms();
  changed();
  TRY_VOID(write(shelf->kept));
  for (const auto& [id, entry] : shelf->entries) TRY_VOID(write(entry.kept));
  return shelf->kept.record;
}

Result<void> ProjectVaults::remove(const VaultPlace& place) {
  Shelf* shelf = TRY(shelf_of(place));
  std::vector<std::string> ids;
  for (const auto& [id, entry] : shelf->entries) {
    shelf->take_from_use(entry);
    ids.push_back(id);
  }
  shelves_.erase(place.vault);
  changed();
  // The vault first: credentials without one are removed at the next start.
  TRY_VOID(files_.remove(place.vault));
  for (const std::string& id : ids) TRY_VOID(files_.remove(id));
  return {};
}

std::vector<VaultRecord> ProjectVaults::list(std::string_view project) const {
  std::vector<VaultRecord> all;
  for (const auto& [id, shelf] : shelves_)
    if (shelf->kept.project == project) all.push_back(shelf->kept.record);
  std::ranges::sort(all, is_newer);
  return all;
}

// ---- credentials

Result<ProjectVaults::Entry*> ProjectVaults::entry_of(Shelf& shelf, std::string_view id) {
  const auto found = shelf.entries.find(id);
  if (found == shelf.entries.end()) return none("credential");
  return &found->second;
}

// In use, and then on disk; back to what was when it cannot be written.
Result<VaultRecord> ProjectVaults::keep(Shelf& shelf, Entry entry) {
  const std::string id = entry.kept.record.id;
  const Json document = TRY(parse_json(entry.kept.record.document));
  entry.use = TRY(use_of(document.at("auth")));
  for (const auto& [other, known] : shelf.entries)
    if (other != id && !known.kept.record.archived_unix_ms &&
        (entry.use.name.empty() ? known.use.server == entry.use.server
                                : known.use.name == entry.use.name))
      return make_error(ErrorCode::kConflict, "keep credential",
                        "the vault has a credential for the same variable or server; archive it, "
                        "or update it");
  if (entry.use.name.empty()) entry.use.name = name_for_server(id);
  entry.kept.record.updated_unix_ms = now_unix_ms();
  TRY_VOID(shelf.put_to_use(entry));
  if (auto written = write(entry.kept); !written) {
    const auto before = shelf.entries.find(id);
    if (before == shelf.entries.end() || !shelf.put_to_use(before->second))
      shelf.take_from_use(entry);
    return written.error();
  }
  VaultRecord record = entry.kept.record;
  shelf.entries.insert_or_assign(id, std::move(entry));
  changed();
  return record;
}

Result<VaultRecord> ProjectVaults::create_credential(const VaultPlace& place, std::string document,
                                                     CredentialSecrets secrets) {
  Shelf* shelf = TRY(open_shelf_of(place));
  if (shelf->entries.size() >= kPerVaultMax)
    return make_error(ErrorCode::kLimit, "create credential",
                      fmt::format("a vault has at most {} credentials", kPerVaultMax));
  Entry entry;
  entry.kept.project = place.project;
  entry.kept.vault = place.vault;
  entry.kept.record.id = "vcrd_" + random_text(kIdLength);
  entry.kept.record.document = std::move(document);
  entry.kept.record.created_unix_ms = now_unix_ms();
  entry.kept.secrets = std::move(secrets);
  return keep(*shelf, std::move(entry));
}

Result<VaultRecord> ProjectVaults::find_credential(const VaultPlace& place,
                                                   std::string_view id) const {
  Shelf* shelf = TRY(shelf_of(place));
  return TRY(entry_of(*shelf, id))->kept.record;
}

Result<VaultRecord> ProjectVaults::update_credential(const VaultPlace& place, std::string_view id,
                                                     std::string document,
                                                     CredentialSecrets secrets) {
  Shelf* shelf = TRY(open_shelf_of(place));
  const Entry* before = TRY(entry_of(*shelf, id));
  if (before->kept.record.archived_unix_ms) return archived("credential");
  const CredentialSecrets& old = before->kept.secrets;
  const auto either = [](Secret& given, const Secret& known) {
    return given.empty() ? copy_of(known) : std::move(given);
  };
  Entry entry;
  entry.kept.project = place.project;
  entry.kept.vault = place.vault;
  entry.kept.record = before->kept.record;
  entry.kept.record.document = std::move(document);
  entry.kept.secrets = {.value = either(secrets.value, old.value),
                        .refresh_token = either(secrets.refresh_token, old.refresh_token),
                        .client_secret = either(secrets.client_secret, old.client_secret)};
  return keep(*shelf, std::move(entry));
}

Result<VaultRecord> ProjectVaults::archive_credential(const VaultPlace& place,
                                                      std::string_view id) {
  Shelf* shelf = TRY(shelf_of(place));
  Entry* entry = TRY(entry_of(*shelf, id));
  if (entry->kept.record.archived_unix_ms) return entry->kept.record;
  shelf->take_from_use(*entry);
  entry->kept.secrets = {};
  entry->kept.record.archived_unix_ms = entry->kept.record.updated_unix_ms = now_unix_ms();
  changed();
  TRY_VOID(write(entry->kept));
  return entry->kept.record;
}

Result<void> ProjectVaults::remove_credential(const VaultPlace& place, std::string_view id) {
  Shelf* shelf = TRY(shelf_of(place));
  const Entry* entry = TRY(entry_of(*shelf, id));
  const std::string file = entry->kept.record.id;
  if (!entry->kept.record.archived_unix_ms) shelf->take_from_use(*entry);
  shelf->entries.erase(file);
  changed();
  return files_.remove(file);
}

Result<std::vector<VaultRecord>> ProjectVaults::list_credentials(const VaultPlace& place) const {
  std::vector<VaultRecord> all;
  for (const auto& [id, entry] : TRY(shelf_of(place))->entries) all.push_back(entry.kept.record);
  std::ranges::sort(all, is_newer);
  return all;
}

bool ProjectVaults::has_refresh_token(const VaultPlace& place, std::string_view id) const {
  const auto shelf = shelf_of(place);
  const auto entry = shelf ? entry_of(**shelf, id) : Result<Entry*>(none("vault"));
  return entry && !(*entry)->kept.secrets.refresh_token.empty();
}

// ---- use

std::shared_ptr<Vault> ProjectVaults::find_usable(std::string_view project,
                                                  std::string_view id) const {
  const auto shelf = shelf_of({.project = std::string(project), .vault = std::string(id)});
  if (!shelf || (*shelf)->is_archived()) return nullptr;
  return (*shelf)->vault;
}

std::shared_ptr<const Credential> ProjectVaults::find_for_server(std::string_view project,
                                                                 std::string_view id,
                                                                 std::string_view url) const {
  const auto shelf = shelf_of({.project = std::string(project), .vault = std::string(id)});
  const auto server = canonical_server(url);
  if (!shelf || !server) return nullptr;
  for (const auto& [entry_id, entry] : (*shelf)->entries)
    if (!entry.kept.record.archived_unix_ms && entry.use.server == *server)
      if (auto credential = (*shelf)->vault->load(entry.use.name)) return *credential;
  return nullptr;
}

void ProjectVaults::forget_expired() {
  for (const auto& [id, shelf] : shelves_)
    if (const auto done = shelf->vault->forget_expired(); !done)
      LOG_ERROR("an expired secret could not be forgotten", {"error", done.error()});
}

// ---- files

Result<void> ProjectVaults::write(const VaultEntry& entry) {
  const Secret plain = encode_entry(entry);
  return files_.write(entry.record.id, plain.reveal());
}

void ProjectVaults::changed() const {
  if (listener_) listener_();
}

std::int64_t ProjectVaults::now_unix_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

}  // namespace pons::vault
