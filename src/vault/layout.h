#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/secret.h"

// The files below the role's state directory.

namespace pons::vault {

inline constexpr std::string_view kKeyFile = "vault.key";
inline constexpr std::string_view kSaltFile = "vault.salt";
inline constexpr std::string_view kSealedDirectory = "vault";
inline constexpr std::string_view kSealedEnding = ".sealed";
inline constexpr std::string_view kKeyProofFile = "key.proof";

// False when the library cannot get random numbers.
bool start_sodium();

// One key per purpose: whoever learns how stubs are made learns nothing of the seals.
Secret subkey(const Secret& key, std::string_view purpose);

// Whether the vault below holds anything that a key has sealed.
Result<bool> has_sealed_files(const std::string& state_directory);

// Old or new, whatever happens, and lasting when it returns.
Result<void> write_durably(const std::string& directory, std::string_view name,
                           std::string_view data);

}  // namespace pons::vault
