#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/secret.h"

namespace pons::vault {

// Sealed files in one directory, NAME.sealed each, under a key for this directory alone. A file
// opens only under the name it was sealed with. Names are the caller's to check: they hold no '/'.
class SealedDirectory {
 public:
  // `state_directory`/`name`, made when there is none. `key`: the vault's own; `purpose` is what
  // sets the key derived from it apart from all others.
  static Result<SealedDirectory> open(const std::string& state_directory, std::string_view name,
                                      const Secret& key, std::string_view purpose);

  // In order. Removes what writers left that were killed.
  Result<std::vector<std::string>> names() const;
  // kDenied when it was changed, renamed, or sealed with another key.
  Result<Secret> read(std::string_view name) const;
  // Old or new, whatever happens, and lasting when it returns. kLimit, and nothing is written, when
  // it could not be read again for its size.
  Result<void> write(std::string_view name, std::string_view plain);
  // Lasting when it returns. One that is not there is removed already.
  Result<void> remove(std::string_view name);

  // A file that holds nothing and tells a wrong key from a damaged file.
  enum class KeyProof : std::uint8_t { kNone, kOpens, kDoesNotOpen };
  Result<KeyProof> examine_key_proof() const;
  Result<void> write_key_proof();

  const std::string& path() const { return path_; }
  std::string file_of(std::string_view name) const;

 private:
  SealedDirectory(std::string path, Secret key) : path_(std::move(path)), key_(std::move(key)) {}

  std::string path_;
  Secret key_;
};

}  // namespace pons::vault
