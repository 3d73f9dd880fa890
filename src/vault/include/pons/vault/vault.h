#pragma once

#include <chrono>
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
#include "pons/vault/credential.h"
#include "pons/vault/sealed_directory.h"

namespace pons::vault {

inline constexpr std::chrono::hours kDefaultGrace{1};
inline constexpr std::size_t kCredentialsMax = 1024;

// The key of the vault below `state_directory`: from `vault.key`, made at the first start. Refused
// when others could read that file, and when it is missing although credentials are there.
Result<Secret> load_or_create_key(const std::string& state_directory);
// The same out of a passphrase (Argon2id, with the salt in `vault.salt`). Takes about a second.
Result<Secret> derive_key(const std::string& state_directory, const Secret& passphrase);

// A sealed file that cannot be used. Its credential is refused until it is set again or removed.
struct DamagedCredential {
  std::string name;
  std::string file;
  std::string reason;
};

struct NewCredential {
  std::string name;
  Secret value;
  std::vector<Binding> bindings;
  Scrub scrub = Scrub::kOn;
};

// Credentials at rest: one sealed file each in `state_directory`/vault, all of them in memory while
// open. One process, one loop; every change is on disk before it counts.
class Vault {
 public:
  // kDenied when the key is not the one that sealed what is there. `clock` outlives the vault.
  static Result<std::unique_ptr<Vault>> open(const std::string& state_directory, const Secret& key,
                                             const Clock& clock);
  // One without files: somebody else keeps what is in it.
  static std::unique_ptr<Vault> in_memory(const Secret& key, const Clock& clock);

  // No credential is bound to this name or below: what answers there is a sandbox. One that is does
  // not open any more. Empty: none.
  void reserve(std::string domain);

  // A credential of that name is replaced; its value is scrubbed for the default grace time, also
  // where only the former one was bound, and its stubs end when the new value has another shape.
  Result<void> set(NewCredential wanted);
  // Stubs and bindings stay. The old value is no longer sent, but scrubbed during the grace time.
  Result<void> rotate(std::string_view name, Secret value, Duration grace = kDefaultGrace);
  // Its value is scrubbed during the default grace time.
  Result<void> remove(std::string_view name);

  // Shared because a request keeps the credential it began with while the vault replaces it.
  // kNotFound, or kDenied naming the damaged file.
  Result<std::shared_ptr<const Credential>> load(std::string_view name) const;
  // Stays as it is until the next change.
  const std::vector<std::shared_ptr<const Credential>>& list() const { return list_; }
  std::vector<DamagedCredential> damaged() const;
  // Those that were removed or replaced a while ago: their hosts may still show their values. In
  // memory only.
  const std::vector<std::shared_ptr<const Credential>>& former() const { return former_list_; }

  // The stub of a credential for one session in one sandbox.
  std::string stub(const Credential& credential, std::string_view sandbox,
                   std::string_view session) const;
  const Secret& stub_key() const { return stub_key_; }

  // Forgets values whose grace time is over; call it now and then.
  Result<void> forget_expired();

  // Grows with every change; `listener` hears of each right after it.
  std::uint64_t generation() const { return generation_; }
  void on_change(std::function<void()> listener) { listener_ = std::move(listener); }

 private:
  Vault(std::optional<SealedDirectory> files, const Secret& key, const Clock& clock);
  Result<void> read_files();
  Result<Credential> read_file(const std::string& name) const;
  Result<void> check_key();
  Result<void> refuse_reserved(const std::vector<Binding>& bindings) const;
  Result<void> refuse_overlap(std::string_view name, std::string_view value) const;
  Result<void> keep(Credential credential);
  Result<void> forget_previous();
  void keep_former(std::shared_ptr<const Credential> credential, TimePoint until);
  void forget_overlapping(std::string_view value);
  void changed();
  void make_list();
  std::int64_t now_unix_ms() const;

  std::optional<SealedDirectory> files_;
  Secret stub_key_;
  const Clock& clock_;
  std::string reserved_;
  std::map<std::string, std::shared_ptr<const Credential>, std::less<>> credentials_;
  std::map<std::string, DamagedCredential, std::less<>> damaged_;
  std::vector<std::shared_ptr<const Credential>> list_;
  struct Former {
    std::shared_ptr<const Credential> credential;
    TimePoint until;
  };
  std::vector<Former> former_;  // the oldest first
  std::vector<std::shared_ptr<const Credential>> former_list_;
  std::uint64_t generation_ = 1;
  std::function<void()> listener_;
};

}  // namespace pons::vault
