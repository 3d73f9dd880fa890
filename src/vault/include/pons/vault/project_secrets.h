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

namespace pons::vault {

// A secret that a caller of the API keeps for the sandboxes of its project. It has no binding and
// no stub: a sandbox's policy says into which field of requests to which host it is put.
struct ProjectSecret {
  std::string id;
  std::string project;
  std::string name;  // canonical; one of its project has it
  Secret value;
  std::uint64_t version = 1;
  std::map<std::string, std::string> metadata;
  std::int64_t created_unix_ms = 0;
  std::int64_t updated_unix_ms = 0;
};

// 1 to 128 bytes of UTF-8 without control characters and braces.
bool is_secret_name(std::string_view name);
// As it is kept and looked for: ASCII letters are small.
std::string canonical_secret_name(std::string_view name);

// Secrets of projects at rest, apart from the operator's credentials: one sealed file each in
// `state_directory`/secrets, all of them in memory while open. One project neither finds nor
// changes those of another. Every change is on disk before it counts.
class ProjectSecrets {
 public:
  using Found = std::shared_ptr<const ProjectSecret>;
  using Metadata = std::map<std::string, std::string>;

  // `key`: the vault's own; files are sealed with one that is derived from it. `clock` outlives it.
  static Result<std::unique_ptr<ProjectSecrets>> open(const std::string& state_directory,
                                                      const Secret& key, const Clock& clock);

  // kConflict when the project has one of that name; no new name looks like an id.
  Result<Found> create(const std::string& project, const std::string& name, Secret value,
                       Metadata metadata);
  // By id or name, as those below, in whatever letters. Without metadata, what was said before
  // stays.
  Result<Found> update(const std::string& project, std::string_view word, Secret value,
                       std::optional<Metadata> metadata);
  Result<void> remove(const std::string& project, std::string_view word);
  Result<Found> load(const std::string& project, std::string_view word) const;
  Found find_named(std::string_view project, std::string_view name) const;
  std::vector<Found> list(std::string_view project) const;  // by name

  // Grows with every change.
  std::uint64_t generation() const { return generation_; }
  // Hears of each change right after it, also of one that is in memory and could not be written.
  using Listener = std::function<void(const std::string& project, const std::string& name)>;
  void on_change(Listener listener) { listener_ = std::move(listener); }
  // Files that do not open any more; their secrets are gone until they are restored.
  const std::vector<std::string>& damaged() const { return damaged_; }

 private:
  ProjectSecrets(SealedDirectory files, const Clock& clock);
  Result<void> read_files();
  Result<ProjectSecret> read_file(const std::string& id) const;
  Result<Found> keep(ProjectSecret secret);
  std::int64_t now_unix_ms() const;

  using Place = std::pair<std::string, std::string>;  // project, name
  SealedDirectory files_;
  const Clock& clock_;
  std::map<Place, Found> all_;
  std::uint64_t generation_ = 1;
  std::vector<std::string> damaged_;
  Listener listener_;
};

}  // namespace pons::vault
