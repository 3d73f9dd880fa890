// For create_leaf_key(); see there.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "pons/egress/leaf_cache.h"

#include <arpa/inet.h>

#include <algorithm>

#include <openssl/ec.h>
#include <openssl/x509v3.h>

#include "certificate.h"

namespace pons::egress {

namespace {

constexpr auto kValidity = std::chrono::days(7);
constexpr auto kBackdated = std::chrono::hours(1);  // clocks differ
constexpr auto kRenewBefore = std::chrono::days(1);
constexpr std::size_t kNameBytesMax = 253;
constexpr std::size_t kCommonNameBytesMax = 64;

bool is_plain_name(const std::string& host) {
  constexpr std::string_view kOctets = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !host.empty() && host.size() <= kNameBytesMax && host.front() != '.' &&
         host.back() != '.' && !host.contains("..") &&
         host.find_first_not_of(kOctets) == std::string::npos;
}

// The bytes of a numeric address; empty for a name.
std::string address_bytes(const std::string& host) {
  in6_addr bytes{};
  if (inet_pton(AF_INET, host.c_str(), &bytes) == 1) return {reinterpret_cast<char*>(&bytes), 4};
  if (inet_pton(AF_INET6, host.c_str(), &bytes) == 1) return {reinterpret_cast<char*>(&bytes), 16};
  return {};
}

// Built and not written as configuration text, in which a host could say more than its name.
Result<UniqueExtension> create_alternative_name(const std::string& host,
                                                const std::string& address) {
  const std::string& bytes = address.empty() ? host : address;
  const int kind = address.empty() ? GEN_DNS : GEN_IPADD;
  const std::unique_ptr<GENERAL_NAMES, Freeing<GENERAL_NAMES_free>> names(GENERAL_NAMES_new());
  std::unique_ptr<GENERAL_NAME, Freeing<GENERAL_NAME_free>> name(GENERAL_NAME_new());
  ASN1_STRING* text =
      ASN1_STRING_type_new(kind == GEN_DNS ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING);
  if (names == nullptr || name == nullptr || text == nullptr ||
      ASN1_STRING_set(text, bytes.data(), static_cast<int>(bytes.size())) != 1) {
    ASN1_STRING_free(text);
    return certificate_error("name certificate", host);
  }
  GENERAL_NAME_set0_value(name.get(), kind, text);
  if (sk_GENERAL_NAME_push(names.get(), name.get()) <= 0)
    return certificate_error("name certificate", host);
  (void)name.release();
  UniqueExtension extension(X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
  if (extension == nullptr) return certificate_error("name certificate", host);
  return extension;
}

// By OpenSSL's older interface: a key that was made by the newer one is encoded and parsed again
// for each certificate it is put into, which takes several times as long as to sign.
UniquePkey create_leaf_key() {
  std::unique_ptr<EC_KEY, Freeing<EC_KEY_free>> numbers(
      EC_KEY_new_by_curve_name(NID_X9_62_prime256v1));
  UniquePkey key(EVP_PKEY_new());
  if (numbers == nullptr || key == nullptr || EC_KEY_generate_key(numbers.get()) != 1 ||
      EVP_PKEY_set1_EC_KEY(key.get(), numbers.get()) != 1)
    return nullptr;
  return key;
}

}  // namespace

// What all leaves of one authority share, made once.
struct LeafCache::Parts {
  X509* issuer = nullptr;
  UniquePkey key;
  std::vector<UniqueExtension> extensions;
};

LeafCache::LeafCache(const CertificateAuthority& authority, const Clock& clock,
                     std::size_t hosts_max)
    : authority_(authority), clock_(clock), hosts_max_(std::max<std::size_t>(hosts_max, 1)) {}

LeafCache::~LeafCache() = default;

Result<std::unique_ptr<LeafCache>> LeafCache::create(const CertificateAuthority& authority,
                                                     const Clock& clock, std::size_t hosts_max) {
  std::unique_ptr<LeafCache> cache(new LeafCache(authority, clock, hosts_max));
  TRY_VOID(cache->follow_authority());
  return cache;
}

Result<void> LeafCache::follow_authority() {
  if (parts_ != nullptr && parts_->issuer == authority_.certificate()) return {};
  auto parts = std::make_unique<Parts>();
  parts->issuer = authority_.certificate();
  parts->key = create_leaf_key();
  // Key identifiers are taken from a certificate, so one without a host lends itself.
  const auto model = TRY(begin_certificate({}, {}));
  if (parts->key == nullptr || X509_set_pubkey(model.get(), parts->key.get()) != 1)
    return certificate_error("create key of leaf certificates");
  const std::pair<int, const char*> wanted[] = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid:always"},
  };
  for (const auto& [kind, value] : wanted)
    parts->extensions.push_back(TRY(create_extension(kind, value, model.get(), parts->issuer)));
  entries_.clear();
  by_host_.clear();
  parts_ = std::move(parts);
  return {};
}

Result<std::shared_ptr<const http::TlsIdentity>> LeafCache::find_or_sign(const std::string& host) {
  TRY_VOID(follow_authority());
  if (const auto known = by_host_.find(host); known != by_host_.end()) {
    const auto entry = known->second;
    if (entry->not_after - clock_.wall() >= kRenewBefore) {
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->identity;
    }
    by_host_.erase(known);
    entries_.erase(entry);
  }
  Entry entry = TRY(sign(host));
  if (entries_.size() >= hosts_max_) {
    by_host_.erase(entries_.back().host);
    entries_.pop_back();
  }
  entries_.push_front(std::move(entry));
  by_host_[host] = entries_.begin();
  return entries_.front().identity;
}

Result<LeafCache::Entry> LeafCache::sign(const std::string& host) const {
  const std::string address = address_bytes(host);
  if (address.empty() && !is_plain_name(host))
    return make_error(ErrorCode::kInvalid, "sign leaf certificate", "not a canonical host name");
  const WallTime now = clock_.wall();
  const WallTime not_after = std::min<WallTime>(now + kValidity, authority_.not_after());
  const auto certificate = TRY(begin_certificate(now - kBackdated, not_after));
  X509* raw = certificate.get();
  // The name that counts is the alternative one. This one is for people, has a limit of its own,
  // and must not make a host name out of an address for clients that still look at it.
  const auto subject = TRY(
      create_name(address.empty() && host.size() <= kCommonNameBytesMax ? host : "Pons egress"));
  if (X509_set_subject_name(raw, subject.get()) != 1 ||
      X509_set_issuer_name(raw, X509_get_subject_name(parts_->issuer)) != 1 ||
      X509_set_pubkey(raw, parts_->key.get()) != 1)
    return certificate_error("sign leaf certificate", host);
  const auto name = TRY(create_alternative_name(host, address));
  bool added = X509_add_ext(raw, name.get(), -1) == 1;
  for (const auto& extension : parts_->extensions)
    added = added && X509_add_ext(raw, extension.get(), -1) == 1;
  if (!added || X509_sign(raw, authority_.key(), EVP_sha256()) <= 0)
    return certificate_error("sign leaf certificate", host);
  X509* const chain[] = {raw};
  return Entry{.host = host,
               .identity = TRY(http::TlsIdentity::create(chain, parts_->key.get())),
               .not_after = not_after};
}

}  // namespace pons::egress
