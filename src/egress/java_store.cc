#include "java_store.h"

#include <openssl/evp.h>

#include "certificate.h"

namespace pons::egress {

namespace {

constexpr std::uint32_t kMagic = 0xfeedfeed;
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kTrustedCertificate = 2;
constexpr std::string_view kPassword = "changeit";
constexpr std::string_view kSalt = "Mighty Aphrodite";  // the format's, in every such file

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
}

// Java's own UTF-8 is the same as ASCII for what stands here.
void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size(), 2);
  out += text;
}

Result<std::string> sha1(const std::string& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha1(), nullptr) != 1)
    return certificate_error("seal Java trust store");
  return std::string(reinterpret_cast<char*>(digest), size);
}

}  // namespace

Result<std::string> encode_java_store(const std::vector<JavaStoreEntry>& entries,
                                      std::uint64_t created_milliseconds) {
  std::string store;
  append_number(store, kMagic, 4);
  append_number(store, kVersion, 4);
  append_number(store, entries.size(), 4);
  for (const auto& entry : entries) {
    append_number(store, kTrustedCertificate, 4);
    append_text(store, entry.alias);
    append_number(store, created_milliseconds, 8);
    append_text(store, "X.509");
    append_number(store, entry.certificate.size(), 4);
    store += entry.certificate;
  }
  std::string sealed;
  for (const char c : kPassword) append_number(sealed, static_cast<unsigned char>(c), 2);
  sealed += kSalt;
  return store + TRY(sha1(sealed + store));
}

}  // namespace pons::egress
