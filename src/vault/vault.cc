#include "pons/vault/vault.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout.h"
#include "pons/base/check.h"
#include "pons/vault/sealed.h"

namespace pons::vault {

namespace {

constexpr std::size_t kFormerMax = 256;
constexpr std::chrono::hours kGraceMax{24 * 30};

Error not_found(std::string_view name) {
  return make_error(ErrorCode::kNotFound, "find credential",
                    fmt::format("there is no credential {}", name));
}

// One inside the other: which of the two stands in a text could not be told.
bool overlap(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty() || a == b) return false;
  return a.find(b) != std::string_view::npos || b.find(a) != std::string_view::npos;
}

}  // namespace

Vault::Vault(std::optional<SealedDirectory> files, const Secret& key, const Clock& clock)
    : files_(std::move(files)), stub_key_(subkey(key, "pons vault stub 1")), clock_(clock) {}

Result<std::unique_ptr<Vault>> Vault::open(const std::string& state_directory, const Secret& key,
                                           const Clock& clock) {
  auto files =
      TRY(SealedDirectory::open(state_directory, kSealedDirectory, key, "pons vault seal 1"));
  std::unique_ptr<Vault> vault(new Vault(std::move(files), key, clock));
  TRY_VOID(vault->read_files());
  TRY_VOID(vault->check_key());
  return vault;
}

std::unique_ptr<Vault> Vault::in_memory(const Secret& key, const Clock& clock) {
  return std::unique_ptr<Vault>(new Vault(std::nullopt, key, clock));
}

Result<void> Vault::read_files() {
  for (const std::string& name : TRY(files_->names())) {
    if (!is_credential_name(name)) continue;
    if (credentials_.size() + damaged_.size() == kCredentialsMax)
      return make_error(ErrorCode::kLimit, "open vault", "it holds more than 1024 credentials");
    auto credential = read_file(name);
    if (credential)
      credentials_[name] = std::make_shared<const Credential>(std::move(*credential));
    else
      damaged_[name] = {
          .name = name, .file = files_->file_of(name), .reason = credential.error().describe()};
  }
  make_list();
  return {};
}

Result<Credential> Vault::read_file(const std::string& name) const {
  const Secret plain = TRY(files_->read(name));
  Credential credential = TRY(decode_credential(name, plain.reveal()));
  const Duration left =
      std::chrono::milliseconds(credential.previous_until_unix_ms - now_unix_ms());
  credential.previous_until = clock_.now() + std::clamp<Duration>(left, Duration(0), kGraceMax);
  return credential;
}

// One damaged file must not lock all others away, and a wrong key must not begin a second vault in
// the same directory.
Result<void> Vault::check_key() {
  using KeyProof = SealedDirectory::KeyProof;
  const KeyProof proof = TRY(files_->examine_key_proof());
  if (proof == KeyProof::kOpens) return {};
  const bool is_new = proof == KeyProof::kNone && damaged_.empty();
  if (credentials_.empty() && !is_new)
    return make_error(ErrorCode::kDenied, "open vault",
                      fmt::format("nothing in {} opens with this key", files_->path()));
  return files_->write_key_proof();
}

void Vault::reserve(std::string domain) {
  reserved_ = std::move(domain);
  for (const auto& [name, credential] : credentials_)
    if (const auto refused = refuse_reserved(credential->bindings); !refused)
      damaged_[name] = {.name = name,
                        .file = files_ ? files_->file_of(name) : std::string(),
                        .reason = refused.error().message};
  if (std::erase_if(credentials_,
                    [&](const auto& known) { return damaged_.contains(known.first); }) > 0)
    changed();
}

Result<void> Vault::refuse_reserved(const std::vector<Binding>& bindings) const {
  for (const Binding& binding : bindings)
    if (!reserved_.empty() &&
        (binding.host == reserved_ || binding.host.ends_with("." + reserved_)))
      return make_error(
          ErrorCode::kInvalid, "bind credential",
          fmt::format("\"{}\" is a name of Pons itself: sandboxes answer there", binding.host));
  return {};
}

Result<void> Vault::set(NewCredential wanted) {
  if (!is_credential_name(wanted.name))
    return make_error(ErrorCode::kInvalid, "set credential",
                      "a name is that of an environment variable: A-Z, 0-9 and _, at most 128");
  if (wanted.bindings.empty())
    return make_error(ErrorCode::kInvalid, "set credential",
                      "a credential without a binding could be used nowhere");
  TRY_VOID(refuse_reserved(wanted.bindings));
  TRY_VOID(check_value(wanted.value.reveal()));
  TRY_VOID(refuse_overlap(wanted.name, wanted.value.reveal()));
  const auto known = credentials_.find(wanted.name);
  if (known == credentials_.end() && !damaged_.contains(wanted.name) &&
      credentials_.size() + damaged_.size() >= kCredentialsMax)
    return make_error(ErrorCode::kLimit, "set credential", "the vault holds 1024 credentials");
  Credential credential;
  credential.name = std::move(wanted.name);
  credential.shape = TRY(shape_of(wanted.value.reveal()));
  credential.value = std::move(wanted.value);
  credential.bindings = std::move(wanted.bindings);
  credential.scrub = wanted.scrub;
  credential.created_unix_ms = credential.rotated_unix_ms = now_unix_ms();
  if (known != credentials_.end() && known->second->value.reveal() != credential.value.reveal()) {
    credential.previous = Secret(std::string(known->second->value.reveal()));
    credential.previous_until_unix_ms =
        now_unix_ms() + std::chrono::milliseconds(kDefaultGrace).count();
    credential.previous_until = clock_.now() + kDefaultGrace;
  }
  const auto old = known == credentials_.end() ? nullptr : known->second;
  if (old != nullptr) keep_former(old, clock_.now() + kDefaultGrace);
  return keep(std::move(credential));
}

Result<void> Vault::rotate(std::string_view name, Secret value, Duration grace) {
  const auto old = TRY(load(name));
  TRY_VOID(check_value(value.reveal()));
  TRY_VOID(refuse_overlap(name, value.reveal()));
  if (value.reveal() == old->value.reveal())
    return make_error(ErrorCode::kInvalid, "rotate credential", "that is the value it has");
  if (grace < Duration::zero() || grace > kGraceMax)
    return make_error(ErrorCode::kInvalid, "rotate credential", "a grace time is 0 to 30 days");
  Credential credential = old->clone();
  credential.previous = std::move(credential.value);
  credential.previous_until_unix_ms =
      now_unix_ms() + std::chrono::duration_cast<std::chrono::milliseconds>(grace).count();
  credential.previous_until = clock_.now() + grace;
  credential.value = std::move(value);
  credential.rotated_unix_ms = now_unix_ms();
  // The one before it is still in its own grace time.
  if (!old->previous.empty()) keep_former(old, old->previous_until);
  return keep(std::move(credential));
}

Result<void> Vault::remove(std::string_view name) {
  if (!credentials_.contains(name) && !damaged_.contains(name)) return not_found(name);
  if (const auto known = credentials_.find(name); known != credentials_.end())
    keep_former(known->second, clock_.now() + kDefaultGrace);
  // In memory first: a value that cannot be deleted on disk is still not used again.
  std::erase_if(credentials_, [&](const auto& known) { return known.first == name; });
  std::erase_if(damaged_, [&](const auto& known) { return known.first == name; });
  changed();
  if (!files_) return {};
  return files_->remove(name);
}

Result<std::shared_ptr<const Credential>> Vault::load(std::string_view name) const {
  if (const auto known = credentials_.find(name); known != credentials_.end()) return known->second;
  if (const auto bad = damaged_.find(name); bad != damaged_.end())
    return make_error(ErrorCode::kDenied, "load credential",
                      fmt::format("{} cannot be used: {}; set the credential again or restore the "
                                  "file",
                                  bad->second.file, bad->second.reason));
  return not_found(name);
}

void Vault::make_list() {
  list_.clear();
  for (const auto& [name, credential] : credentials_) list_.push_back(credential);
  former_list_.clear();
  for (const Former& former : former_) former_list_.push_back(former.credential);
}

void Vault::keep_former(std::shared_ptr<const Credential> credential, TimePoint until) {
  if (former_.size() >= kFormerMax) former_.erase(former_.begin());
  former_.push_back({.credential = std::move(credential), .until = until});
}

// Which of two stands in a text could not be told: the one that is in use counts.
void Vault::forget_overlapping(std::string_view value) {
  std::erase_if(former_, [&](const Former& former) {
    return overlap(value, former.credential->value.reveal()) ||
           overlap(value, former.credential->previous.reveal());
  });
}

void Vault::changed() {
  make_list();
  ++generation_;
  if (listener_) listener_();
}

std::vector<DamagedCredential> Vault::damaged() const {
  std::vector<DamagedCredential> all;
  for (const auto& [name, bad] : damaged_) all.push_back(bad);
  return all;
}

std::string Vault::stub(const Credential& credential, std::string_view sandbox,
                        std::string_view session) const {
  return make_stub(credential.shape, stub_key_,
                   {.sandbox = sandbox, .session = session, .credential = credential.name},
                   credential.value.reveal());
}

Result<void> Vault::forget_expired() {
  if (std::erase_if(former_,
                    [now = clock_.now()](const Former& former) { return former.until <= now; }) > 0)
    changed();
  return forget_previous();
}

Result<void> Vault::forget_previous() {
  const auto all = list();  // keep() makes another one
  for (const auto& known : all) {
    if (known->previous.empty() || known->previous_until > clock_.now()) continue;
    Credential credential = known->clone();
    credential.previous = Secret();
    credential.previous_until_unix_ms = 0;
    credential.previous_until = kNever;
    TRY_VOID(keep(std::move(credential)));
  }
  return {};
}

Result<void> Vault::refuse_overlap(std::string_view name, std::string_view value) const {
  for (const auto& [other, credential] : credentials_)
    if (overlap(value, credential->value.reveal()) ||
        (other != name && overlap(value, credential->previous.reveal())))
      return make_error(ErrorCode::kConflict, "check value",
                        fmt::format("the value contains that of {}, or is contained in it", other));
  return {};
}

Result<void> Vault::keep(Credential credential) {
  const std::string name = credential.name;
  if (files_) {
    const Secret plain = encode_credential(credential);
    TRY_VOID(files_->write(name, plain.reveal()));
  }
  forget_overlapping(credential.value.reveal());
  credentials_[name] = std::make_shared<const Credential>(std::move(credential));
  damaged_.erase(name);
  changed();
  return {};
}

std::int64_t Vault::now_unix_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

}  // namespace pons::vault
