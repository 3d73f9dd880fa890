#include "certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

namespace pons::egress {

namespace {

constexpr std::size_t kCertificatesMax = 4096;

bool set_random_serial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] = (bytes[0] & 0x7f) | 0x40;  // positive, and always of this length
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

std::time_t to_seconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

Error certificate_error(const char* step, std::string_view subject) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* known = code != 0 ? ERR_reason_error_string(code) : nullptr;
  std::string message = known != nullptr ? known : "OpenSSL gives no reason";
  if (!subject.empty()) message = std::string(subject) + ": " + message;
  return make_error(ErrorCode::kInvalid, step, std::move(message));
}

Result<UniqueX509> begin_certificate(WallTime not_before, WallTime not_after) {
  UniqueX509 certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !set_random_serial(certificate.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), to_seconds(not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), to_seconds(not_after)) == nullptr)
    return certificate_error("create certificate");
  return certificate;
}

Result<UniqueExtension> create_extension(int kind, const char* value, X509* subject, X509* issuer) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, subject, nullptr, nullptr, 0);
  UniqueExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  if (extension == nullptr) return certificate_error("create certificate extension", value);
  return extension;
}

Result<void> add_extension(X509* certificate, int kind, const char* value, X509* issuer) {
  const auto extension = TRY(create_extension(kind, value, certificate, issuer));
  if (X509_add_ext(certificate, extension.get(), -1) != 1)
    return certificate_error("create certificate extension", value);
  return {};
}

Result<UniqueName> create_name(const std::string& common_name) {
  UniqueName name(X509_NAME_new());
  const auto add = [&](const char* field, const std::string& value) {
    return X509_NAME_add_entry_by_txt(name.get(), field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.c_str()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
  };
  if (name == nullptr || !add("O", "Pons") || !add("CN", common_name))
    return certificate_error("name certificate", common_name);
  return name;
}

std::string to_pem(const X509* certificate) {
  const UniqueStream stream(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(stream.get(), certificate);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(stream.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string to_der(const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  std::string der(reinterpret_cast<char*>(bytes), size > 0 ? static_cast<std::size_t>(size) : 0);
  OPENSSL_free(bytes);
  return der;
}

Result<std::vector<UniqueX509>> read_pem_certificates(std::string_view pem) {
  std::vector<UniqueX509> certificates;
  const UniqueStream stream(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* certificate = PEM_read_bio_X509(stream.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
    if (certificates.size() > kCertificatesMax)
      return make_error(ErrorCode::kLimit, "read certificates", "there are too many of them");
  }
  // To OpenSSL the end of the text is an error of this kind.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    return certificate_error("read certificates");
  ERR_clear_error();
  return certificates;
}

}  // namespace pons::egress
