#pragma once

// What authority and leaves have in common: X.509 by way of OpenSSL.

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "pons/base/clock.h"
#include "pons/base/result.h"

namespace pons::egress {

template <auto Free>
struct Freeing {
  void operator()(auto* object) const { Free(object); }
};
using UniqueX509 = std::unique_ptr<X509, Freeing<X509_free>>;
using UniqueExtension = std::unique_ptr<X509_EXTENSION, Freeing<X509_EXTENSION_free>>;
using UniqueName = std::unique_ptr<X509_NAME, Freeing<X509_NAME_free>>;
using UniquePkey = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY_free>>;
using UniqueStream = std::unique_ptr<BIO, Freeing<BIO_free>>;

// What OpenSSL says; its queue is empty afterwards.
Error certificate_error(const char* step, std::string_view subject = {});

// Version 3, a random 128-bit serial number, and this validity; the rest is the caller's.
Result<UniqueX509> begin_certificate(WallTime not_before, WallTime not_after);

// In the words of OpenSSL's configuration. `subject` and `issuer` are for key identifiers.
Result<UniqueExtension> create_extension(int kind, const char* value, X509* subject = nullptr,
                                         X509* issuer = nullptr);
Result<void> add_extension(X509* certificate, int kind, const char* value, X509* issuer = nullptr);

Result<UniqueName> create_name(const std::string& common_name);

std::string to_pem(const X509* certificate);
std::string to_der(const X509* certificate);
// All certificates in the text; other blocks are passed over, damaged ones are an error.
Result<std::vector<UniqueX509>> read_pem_certificates(std::string_view pem);

}  // namespace pons::egress
