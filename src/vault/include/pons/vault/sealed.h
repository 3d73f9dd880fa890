#pragma once

#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/base/secret.h"
#include "pons/vault/credential.h"

// What a sealed file holds: magic and version, a random nonce, and the credential under
// XChaCha20-Poly1305 with magic, version and name as additional data. A file that was renamed to
// another credential's name does not open.

namespace pons::vault {

inline constexpr std::size_t kSealedBytesMax = 256 * 1024;
inline constexpr std::size_t kKeyBytes = 32;

std::string seal_bytes(const Secret& key, std::string_view name, std::string_view plain);
Result<Secret> open_bytes(const Secret& key, std::string_view name, std::string_view sealed);

// The clear text inside: sizes, metadata as JSON, and the values apart from it, so that no JSON
// parser ever copies a value.
Secret encode_credential(const Credential& credential);
Result<Credential> decode_credential(std::string_view name, std::string_view plain);

}  // namespace pons::vault
