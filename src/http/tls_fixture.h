#pragma once

// For tests of TLS: certificates made on the spot, and OpenSSL driven by hand.

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "http_fixture.h"
#include "pons/http/tls.h"
#include "tls_native.h"

namespace pons::http {

using UniqueContext = std::unique_ptr<SSL_CTX, NativeDeleter<SSL_CTX_free>>;

struct Identity {
  UniqueKey key{EVP_EC_gen("P-256")};
  UniqueCertificate certificate{X509_new()};
};

inline void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  ASSERT_NE(extension, nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

enum class Validity : std::uint8_t { kNow, kExpired };

// `issuer` null: signed by itself.
inline Identity create_identity(const char* name, const char* alternative_names,
                                const Identity* issuer, Validity validity = Validity::kNow) {
  Identity identity;
  X509* certificate = identity.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), issuer == nullptr ? 1 : 2);
  constexpr long kHour = 3600;
  X509_gmtime_adj(X509_getm_notBefore(certificate), -2 * kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate), validity == Validity::kNow ? kHour : -kHour);
  X509_set_pubkey(certificate, identity.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  const Identity& signer = issuer != nullptr ? *issuer : identity;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate.get()));
  if (issuer == nullptr) add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  if (alternative_names != nullptr)
    add_extension(certificate, NID_subject_alt_name, alternative_names);
  EXPECT_GT(X509_sign(certificate, signer.key.get(), EVP_sha256()), 0);
  return identity;
}

// Writes name.crt and name.key.
inline void save(const TempDir& dir, const std::string& name, const Identity& identity) {
  using UniqueFile = std::unique_ptr<FILE, NativeDeleter<fclose>>;
  const UniqueFile certificate(fopen(dir.file(name + ".crt").c_str(), "we"));
  const UniqueFile key(fopen(dir.file(name + ".key").c_str(), "we"));
  EXPECT_EQ(PEM_write_X509(certificate.get(), identity.certificate.get()), 1);
  EXPECT_EQ(
      PEM_write_PrivateKey(key.get(), identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr),
      1);
}

// One set of certificates for all tests.
struct Authority {
  Authority() {
    const Identity root = create_identity("test authority", nullptr, nullptr);
    save(dir, "root", root);
    const char* names = "DNS:pons.test,IP:127.0.0.1";
    save(dir, "server", create_identity("pons.test", names, &root));
    save(dir, "renewed", create_identity("renewed", names, &root));
    save(dir, "expired", create_identity("pons.test", names, &root, Validity::kExpired));
    save(dir, "self", create_identity("pons.test", names, nullptr));
  }
  std::shared_ptr<TlsContext> server(const std::string& name = "server") const {
    auto made = TlsContext::create_server(dir.file(name + ".crt"), dir.file(name + ".key"));
    EXPECT_TRUE(made.has_value()) << made.error().describe();
    return std::move(*made);
  }
  std::shared_ptr<TlsContext> client() const {
    return std::move(*TlsContext::create_client(dir.file("root.crt")));
  }
  TempDir dir;
};

inline const Authority& authority() {
  static const Authority made;
  return made;
}

// OpenSSL on a blocking socket.
class RawTls {
 public:
  RawTls(TextPeer peer, UniqueContext context)
      : peer_(std::move(peer)), context_(std::move(context)) {
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), peer_.fd());
  }
  static RawTls server(TextPeer peer) {
    UniqueContext context(SSL_CTX_new(TLS_server_method()));
    const TempDir& dir = authority().dir;
    SSL_CTX_use_certificate_chain_file(context.get(), dir.file("server.crt").c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), dir.file("server.key").c_str(), SSL_FILETYPE_PEM);
    return RawTls(std::move(peer), std::move(context));
  }
  static RawTls client(TextPeer peer) {
    return RawTls(std::move(peer), UniqueContext(SSL_CTX_new(TLS_client_method())));
  }
  SSL* ssl() { return ssl_.get(); }
  TextPeer& peer() { return peer_; }
  bool connect() { return SSL_connect(ssl_.get()) == 1; }
  bool accept() { return SSL_accept(ssl_.get()) == 1; }
  void send(std::string_view text) {
    EXPECT_EQ(SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
  }
  std::string read_until(std::string_view mark) {
    std::string text;
    char piece[4096];
    while (!text.contains(mark)) {
      const int got = SSL_read(ssl_.get(), piece, sizeof piece);
      if (got <= 0) break;
      text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  TextPeer peer_;
  UniqueContext context_;
  UniqueSsl ssl_;
};

}  // namespace pons::http
