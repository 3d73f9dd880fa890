#include "pons/vault/sealed.h"

#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <sodium.h>
#include <nlohmann/json.hpp>

#include "pons/base/check.h"

namespace pons::vault {

namespace {

constexpr std::string_view kMagic = "PONSVLT\x01";  // the last byte is the version
constexpr std::size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kPartsMax = 3;

static_assert(kKeyBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

Error damaged(std::string_view why) {
  return make_error(ErrorCode::kDenied, "open sealed file", std::string(why));
}

std::string size_prefix(std::size_t size) {
  std::string prefix(4, '\0');
  for (int i = 0; i < 4; ++i)
    prefix[static_cast<std::size_t>(i)] = static_cast<char>(size >> 8 * i);
  return prefix;
}

// Exactly three parts, each behind its size, and nothing after them.
Result<std::array<std::string_view, kPartsMax>> parts_of(std::string_view plain) {
  std::array<std::string_view, kPartsMax> parts;
  for (std::string_view& part : parts) {
    if (plain.size() < 4) return damaged("its content is cut short");
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(plain[i])) << 8 * i;
    plain.remove_prefix(4);
    if (size > plain.size()) return damaged("its content is cut short");
    part = plain.substr(0, size);
    plain.remove_prefix(size);
  }
  if (!plain.empty()) return damaged("it has more content than it should");
  return parts;
}

Result<void> read_metadata(const Json& json, Credential& credential) {
  try {
    if (json.at("kind").get<std::string>() != to_string(Kind::kStatic))
      return damaged("it is of a kind that this version does not know");
    credential.bindings = TRY(parse_bindings(json.at("bindings")));
    credential.shape = TRY(parse_shape(json.at("shape")));
    credential.scrub = json.at("scrub").get<bool>() ? Scrub::kOn : Scrub::kOff;
    credential.created_unix_ms = json.at("created_unix_ms").get<std::int64_t>();
    credential.rotated_unix_ms = json.at("rotated_unix_ms").get<std::int64_t>();
    credential.previous_until_unix_ms = json.at("previous_until_unix_ms").get<std::int64_t>();
    return {};
  } catch (const Json::exception&) {
    return damaged("its description has an unexpected form");
  }
}

}  // namespace

std::string seal_bytes(const Secret& key, std::string_view name, std::string_view plain) {
  CHECK(key.size() == kKeyBytes);
  std::string sealed(kMagic);
  std::string nonce(kNonceBytes, '\0');
  randombytes_buf(nonce.data(), nonce.size());
  const std::string bound = fmt::format("{}{}", kMagic, name);
  std::string text(plain.size() + kTagBytes, '\0');
  crypto_aead_xchacha20poly1305_ietf_encrypt(
      bytes_of(text), nullptr, bytes_of(plain), plain.size(), bytes_of(std::string_view(bound)),
      bound.size(), nullptr, bytes_of(std::string_view(nonce)), bytes_of(key.reveal()));
  return sealed + nonce + text;
}

Result<Secret> open_bytes(const Secret& key, std::string_view name, std::string_view sealed) {
  CHECK(key.size() == kKeyBytes);
  if (sealed.size() > kSealedBytesMax) return damaged("it is too large");
  if (!sealed.starts_with(kMagic.substr(0, kMagic.size() - 1)))
    return damaged("it is not a file of the vault");
  if (!sealed.starts_with(kMagic))
    return damaged("it is of a version that this program does not know");
  sealed.remove_prefix(kMagic.size());
  if (sealed.size() < kNonceBytes + kTagBytes) return damaged("it is cut short");
  const std::string_view nonce = sealed.substr(0, kNonceBytes);
  const std::string_view text = sealed.substr(kNonceBytes);
  const std::string bound = fmt::format("{}{}", kMagic, name);
  std::string plain(text.size() - kTagBytes, '\0');
  if (crypto_aead_xchacha20poly1305_ietf_decrypt(bytes_of(plain), nullptr, nullptr, bytes_of(text),
                                                 text.size(), bytes_of(std::string_view(bound)),
                                                 bound.size(), bytes_of(nonce),
                                                 bytes_of(key.reveal())) != 0)
    return damaged("it was changed, renamed, or sealed with another key");
  return Secret(std::move(plain));
}

Secret encode_credential(const Credential& credential) {
  Json bindings = Json::array();
  for (const Binding& binding : credential.bindings) bindings.push_back(to_json(binding));
  const std::string description =
      dump_json({{"kind", to_string(credential.kind)},
                 {"bindings", std::move(bindings)},
                 {"shape", to_json(credential.shape)},
                 {"scrub", credential.scrub == Scrub::kOn},
                 {"created_unix_ms", credential.created_unix_ms},
                 {"rotated_unix_ms", credential.rotated_unix_ms},
                 {"previous_until_unix_ms", credential.previous_until_unix_ms}});
  std::string plain;
  // Reserved in full: growing would leave copies of values behind.
  plain.reserve(12 + description.size() + credential.value.size() + credential.previous.size());
  for (const std::string_view part :
       {std::string_view(description), credential.value.reveal(), credential.previous.reveal()}) {
    plain += size_prefix(part.size());
    plain += part;
  }
  return Secret(std::move(plain));
}

Result<Credential> decode_credential(std::string_view name, std::string_view plain) {
  const auto parts = TRY(parts_of(plain));
  Credential credential;
  credential.name = name;
  const Json description = TRY(parse_json(parts[0], {.depth = 8, .bytes = kSealedBytesMax}));
  TRY_VOID(read_metadata(description, credential));
  if (parts[1].empty()) return damaged("it has no value");
  credential.value = Secret(std::string(parts[1]));
  credential.previous = Secret(std::string(parts[2]));
  return credential;
}

}  // namespace pons::vault
