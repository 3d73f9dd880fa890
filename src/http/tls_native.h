#pragma once

// OpenSSL's objects as owned values, shared by the TLS sources of this folder.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "pons/base/result.h"

namespace pons::http {

template <auto Free>
struct NativeDeleter {
  void operator()(auto* object) const { Free(object); }
};
using UniqueSsl = std::unique_ptr<SSL, NativeDeleter<SSL_free>>;
using UniqueBio = std::unique_ptr<BIO, NativeDeleter<BIO_free>>;
using UniqueCertificate = std::unique_ptr<X509, NativeDeleter<X509_free>>;
using UniqueKey = std::unique_ptr<EVP_PKEY, NativeDeleter<EVP_PKEY_free>>;

// What OpenSSL says went wrong. Its error queue is per thread; it is read once per failure and left
// empty.
Error tls_error(const char* step, const std::string& subject = {});

Result<std::vector<UniqueCertificate>> read_certificates(std::string_view pem);

// Called by OpenSSL in the middle of a handshake, with what the connection registered below.
class HandshakeNotes {
 public:
  virtual ~HandshakeNotes() = default;
  // The protocol a client is answered with; empty for none.
  virtual std::string_view protocol_answer() const = 0;
  virtual void note_session(SSL_SESSION* session) = 0;  // owned from now on
};
void attach_notes(SSL* ssl, HandshakeNotes* notes);
HandshakeNotes* notes_of(const SSL* ssl);

}  // namespace pons::http
