#include "pons/vault/project_secrets.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::vault {

namespace {

constexpr std::string_view kDirectory = "secrets";
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kValueBytesMax = 8 * 1024;
constexpr std::string_view kIdPrefix = "sec_";
constexpr std::size_t kMetadataMax = 64;
constexpr std::size_t kMetadataBytesMax = 8 * 1024;
constexpr std::size_t kProjectSecretsMax = 256;
constexpr std::size_t kAllSecretsMax = 4096;
constexpr std::size_t kSizeBytes = 4;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalid, "keep secret", std::move(message));
}

Error not_found() {
  return make_error(ErrorCode::kNotFound, "find secret", "the project has no such secret");
}

// What can stand in a field of a request.
Result<void> check_secret_value(std::string_view value) {
  if (value.empty()) return wrong("a secret's value is not empty");
  if (value.size() > kValueBytesMax) return wrong("a secret's value has at most 8 KiB");
  if (!std::ranges::all_of(value, [](char c) { return c >= 0x20 && c < 0x7F; }))
    return wrong("a secret's value is printable ASCII: it is put into a field of a request");
  if (trim(value) != value) return wrong("a secret's value neither begins nor ends with a space");
  return {};
}

Result<void> check_metadata(const ProjectSecrets::Metadata& metadata) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : metadata) bytes += name.size() + value.size();
  if (metadata.size() > kMetadataMax || bytes > kMetadataBytesMax)
    return wrong(fmt::format("metadata has at most {} entries and {} bytes", kMetadataMax,
                             kMetadataBytesMax));
  return {};
}

// The size of the description, the description as JSON, the value: no JSON ever holds a value.
Secret encode(const ProjectSecret& secret) {
  const std::string about = dump_json({{"project", secret.project},
                                       {"name", secret.name},
                                       {"version", secret.version},
                                       {"metadata", secret.metadata},
                                       {"created_unix_ms", secret.created_unix_ms},
                                       {"updated_unix_ms", secret.updated_unix_ms}});
  std::string plain;
  plain.reserve(kSizeBytes + about.size() + secret.value.size());
  for (std::size_t i = 0; i < kSizeBytes; ++i) plain += static_cast<char>(about.size() >> 8 * i);
  plain.append(about).append(secret.value.reveal());
  return Secret(std::move(plain));
}

Result<ProjectSecret> decode(std::string id, std::string_view plain) {
  const auto damaged = [] {
    return make_error(ErrorCode::kDenied, "open secret", "its content has another form");
  };
  if (plain.size() < kSizeBytes) return damaged();
  std::size_t size = 0;
  for (std::size_t i = 0; i < kSizeBytes; ++i)
    size |= static_cast<std::size_t>(static_cast<unsigned char>(plain[i])) << 8 * i;
  plain.remove_prefix(kSizeBytes);
  if (size > plain.size()) return damaged();
  const Json about = TRY(parse_json(plain.substr(0, size)));
  try {
    ProjectSecret secret;
    secret.id = std::move(id);
    secret.project = about.at("project").get<std::string>();
    secret.name = about.at("name").get<std::string>();
    secret.version = about.at("version").get<std::uint64_t>();
    secret.metadata = about.at("metadata").get<ProjectSecrets::Metadata>();
    secret.created_unix_ms = about.at("created_unix_ms").get<std::int64_t>();
    secret.updated_unix_ms = about.at("updated_unix_ms").get<std::int64_t>();
    secret.value = Secret(std::string(plain.substr(size)));
    if (!is_secret_name(secret.name) || !check_secret_value(secret.value.reveal()))
      return damaged();
    secret.name = canonical_secret_name(secret.name);
    return secret;
  } catch (const Json::exception&) {
    return damaged();
  }
}

}  // namespace

bool is_secret_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && is_valid_utf8(name) &&
         std::ranges::none_of(name, [](char c) {
           return (static_cast<unsigned char>(c) < 0x20) || c == 0x7F || c == '{' || c == '}';
         });
}

std::string canonical_secret_name(std::string_view name) {
  std::string canonical(name);
  std::ranges::transform(canonical, canonical.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return canonical;
}

ProjectSecrets::ProjectSecrets(SealedDirectory files, const Clock& clock)
    : files_(std::move(files)), clock_(clock) {}

Result<std::unique_ptr<ProjectSecrets>> ProjectSecrets::open(const std::string& state_directory,
                                                             const Secret& key,
                                                             const Clock& clock) {
  auto files =
      TRY(SealedDirectory::open(state_directory, kDirectory, key, "pons project secrets 1"));
  std::unique_ptr<ProjectSecrets> secrets(new ProjectSecrets(std::move(files), clock));
  TRY_VOID(secrets->read_files());
  return secrets;
}

Result<void> ProjectSecrets::read_files() {
  for (const std::string& id : TRY(files_.names())) {
    auto secret = read_file(id);
    if (!secret || all_.size() >= kAllSecretsMax) {
      damaged_.push_back(files_.file_of(id));
      continue;
    }
    // Of names that differ in nothing but the size of their letters, the one that changed last.
    Found& place = all_[{secret->project, secret->name}];
    auto kept = std::make_shared<const ProjectSecret>(std::move(*secret));
    if (place == nullptr || place->updated_unix_ms < kept->updated_unix_ms) place.swap(kept);
    if (kept != nullptr) damaged_.push_back(files_.file_of(kept->id));
  }
  return {};
}

Result<ProjectSecret> ProjectSecrets::read_file(const std::string& id) const {
  const Secret plain = TRY(files_.read(id));
  return decode(id, plain.reveal());
}

Result<ProjectSecrets::Found> ProjectSecrets::create(const std::string& project,
                                                     const std::string& name, Secret value,
                                                     Metadata metadata) {
  if (!is_secret_name(name) || canonical_secret_name(name).starts_with(kIdPrefix))
    return wrong(
        "a secret's name has 1 to 128 bytes, no braces and no control characters, and does not "
        "begin with sec_");
  TRY_VOID(check_secret_value(value.reveal()));
  TRY_VOID(check_metadata(metadata));
  if (find_named(project, name) != nullptr)
    return make_error(ErrorCode::kConflict, "keep secret",
                      fmt::format("secret \"{}\" exists already", name));
  if (list(project).size() >= kProjectSecretsMax || all_.size() >= kAllSecretsMax)
    return make_error(ErrorCode::kLimit, "keep secret",
                      fmt::format("a project has at most {} secrets", kProjectSecretsMax));
  ProjectSecret secret;
  secret.id = std::string(kIdPrefix) + random_text(20);
  secret.project = project;
  secret.name = canonical_secret_name(name);
  secret.value = std::move(value);
  secret.metadata = std::move(metadata);
  secret.created_unix_ms = secret.updated_unix_ms = now_unix_ms();
  return keep(std::move(secret));
}

Result<ProjectSecrets::Found> ProjectSecrets::update(const std::string& project,
                                                     std::string_view word, Secret value,
                                                     std::optional<Metadata> metadata) {
  const Found old = TRY(load(project, word));
  TRY_VOID(check_secret_value(value.reveal()));
  if (metadata) TRY_VOID(check_metadata(*metadata));
  ProjectSecret secret;
  secret.id = old->id;
  secret.project = old->project;
  secret.name = old->name;
  secret.value = std::move(value);
  secret.version = old->version + 1;
  secret.metadata = metadata ? *std::move(metadata) : old->metadata;
  secret.created_unix_ms = old->created_unix_ms;
  secret.updated_unix_ms = now_unix_ms();
  return keep(std::move(secret));
}

Result<void> ProjectSecrets::remove(const std::string& project, std::string_view word) {
  const Found secret = TRY(load(project, word));
  // In memory first: a value that cannot be deleted on disk is still not used again.
  all_.erase({secret->project, secret->name});
  ++generation_;
  if (listener_) listener_(secret->project, secret->name);
  return files_.remove(secret->id);
}

Result<ProjectSecrets::Found> ProjectSecrets::load(const std::string& project,
                                                   std::string_view word) const {
  if (auto named = find_named(project, word)) return named;
  for (const auto& [place, secret] : all_)
    if (place.first == project && secret->id == word) return secret;
  return not_found();
}

ProjectSecrets::Found ProjectSecrets::find_named(std::string_view project,
                                                 std::string_view name) const {
  const auto found = all_.find({std::string(project), canonical_secret_name(name)});
  return found == all_.end() ? nullptr : found->second;
}

std::vector<ProjectSecrets::Found> ProjectSecrets::list(std::string_view project) const {
  std::vector<Found> own;
  for (auto at = all_.lower_bound({std::string(project), std::string()});
       at != all_.end() && at->first.first == project; ++at)
    own.push_back(at->second);
  return own;
}

Result<ProjectSecrets::Found> ProjectSecrets::keep(ProjectSecret secret) {
  const Secret plain = encode(secret);
  TRY_VOID(files_.write(secret.id, plain.reveal()));
  Place place{secret.project, secret.name};
  auto kept = std::make_shared<const ProjectSecret>(std::move(secret));
  all_[std::move(place)] = kept;
  ++generation_;
  if (listener_) listener_(kept->project, kept->name);
  return kept;
}

std::int64_t ProjectSecrets::now_unix_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

}  // namespace pons::vault
