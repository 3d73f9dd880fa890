#include <algorithm>
#include <ctime>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "pons/http/tls.h"
#include "tls_native.h"

namespace pons::http {

namespace {

// Several records per system call; the buffer exists only while bytes wait in it.
constexpr std::size_t kReadAheadBytes = 64 * 1024;
constexpr std::size_t kCertificatesMax = 1024;

Result<SSL_CTX*> create_context(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  if (context == nullptr) return tls_error("create TLS context");
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  return context;
}

// One answer, and only if it was offered. A client that offers other protocols must not believe
// that one of them was chosen.
int select_protocol(SSL* ssl, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int offered_size, void*) {
  const HandshakeNotes* notes = notes_of(ssl);
  if (notes == nullptr) return SSL_TLSEXT_ERR_ALERT_FATAL;
  const std::string_view answer = notes->protocol_answer();
  if (answer.empty()) return SSL_TLSEXT_ERR_NOACK;
  const std::string_view offer(reinterpret_cast<const char*>(offered), offered_size);
  for (std::size_t at = 0; at < offer.size();) {
    const std::size_t size = static_cast<unsigned char>(offer[at]);
    const std::string_view name = offer.substr(at + 1, size);
    if (name == answer) {
      *out = reinterpret_cast<const unsigned char*>(name.data());
      *out_size = static_cast<unsigned char>(name.size());
      return SSL_TLSEXT_ERR_OK;
    }
    at += 1 + size;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int take_session(SSL* ssl, SSL_SESSION* session) {
  HandshakeNotes* notes = notes_of(ssl);
  if (notes == nullptr) return 0;
  notes->note_session(session);
  return 1;
}

std::string key_digest(const X509* certificate) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_pubkey_digest(certificate, EVP_sha256(), digest, &size) != 1) return {};
  return {reinterpret_cast<char*>(digest), size};
}

// OpenSSL's own verdict first, so that a refusal names the usual reason where there is one.
int verify_chain(X509_STORE_CTX* store, void* forbidden_keys) {
  if (X509_verify_cert(store) != 1) return 0;
  const auto& forbidden = *static_cast<const std::vector<std::string>*>(forbidden_keys);
  if (forbidden.empty()) return 1;
  const STACK_OF(X509)* chain = X509_STORE_CTX_get0_chain(store);
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    const std::string digest = key_digest(sk_X509_value(chain, i));
    if (!digest.empty() && std::ranges::find(forbidden, digest) == forbidden.end()) continue;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }
  return 1;
}

}  // namespace

Error tls_error(const char* step, const std::string& subject) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* known = code != 0 ? ERR_reason_error_string(code) : nullptr;
  const std::string reason = known != nullptr ? known : "connection closed";
  return make_error(ErrorCode::kInvalid, step, subject.empty() ? reason : subject + ": " + reason);
}

static int notes_index() {
  static const int kIndex = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return kIndex;
}

void attach_notes(SSL* ssl, HandshakeNotes* notes) {
  SSL_set_ex_data(ssl, notes_index(), notes);
}

HandshakeNotes* notes_of(const SSL* ssl) {
  return static_cast<HandshakeNotes*>(SSL_get_ex_data(ssl, notes_index()));
}

Result<std::vector<UniqueCertificate>> read_certificates(std::string_view pem) {
  std::vector<UniqueCertificate> certificates;
  const UniqueBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
    if (certificates.size() > kCertificatesMax)
      return make_error(ErrorCode::kLimit, "read certificates", "there are too many of them");
  }
  // The end of the text is an error of this kind to OpenSSL.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    return tls_error("read certificates");
  ERR_clear_error();
  return certificates;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

Result<std::shared_ptr<TlsContext>> TlsContext::adopt(Result<ssl_ctx_st*> context) {
  return std::shared_ptr<TlsContext>(new TlsContext(TRY(std::move(context))));
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_server(const std::string& certificate_file,
                                                              const std::string& key_file) {
  auto context = TRY(adopt(create_context(TLS_server_method())));
  if (SSL_CTX_use_certificate_chain_file(context->native(), certificate_file.c_str()) != 1)
    return tls_error("read TLS certificate", certificate_file);
  if (SSL_CTX_use_PrivateKey_file(context->native(), key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return tls_error("read TLS key", key_file);
  if (SSL_CTX_check_private_key(context->native()) != 1)
    return tls_error("match TLS key and certificate", key_file);
  SSL_CTX_set_alpn_select_cb(context->native(), select_protocol, nullptr);
  return context;
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_server(const TlsIdentity& identity) {
  auto context = TRY(adopt(create_context(TLS_server_method())));
  const auto chain = identity.chain();
  bool used = SSL_CTX_use_certificate(context->native(), chain.front()) == 1 &&
              SSL_CTX_use_PrivateKey(context->native(), identity.key()) == 1;
  for (X509* certificate : chain.subspan(1))
    used = used && SSL_CTX_add1_chain_cert(context->native(), certificate) == 1;
  if (!used) return tls_error("use TLS identity");
  // A cache would let clients decide how much memory it takes.
  SSL_CTX_set_session_cache_mode(context->native(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context->native(), select_protocol, nullptr);
  return context;
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_server() {
  auto context = TRY(adopt(create_context(TLS_server_method())));
  SSL_CTX_set_session_cache_mode(context->native(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context->native(), 0);
  SSL_CTX_set_alpn_select_cb(context->native(), select_protocol, nullptr);
  return context;
}

static Result<void> load_authorities(ssl_ctx_st* context, const TlsTrust& trust) {
  if (trust.authorities.empty()) {
    const int loaded =
        trust.authority_file.empty()
            ? SSL_CTX_set_default_verify_paths(context)
            : SSL_CTX_load_verify_locations(context, trust.authority_file.c_str(), nullptr);
    if (loaded != 1) return tls_error("read TLS authorities", trust.authority_file);
    return {};
  }
  const auto certificates = TRY(read_certificates(trust.authorities));
  if (certificates.empty())
    return make_error(ErrorCode::kInvalid, "read TLS authorities", "there is no certificate");
  for (const auto& certificate : certificates)
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get()) != 1)
      return tls_error("read TLS authorities");
  return {};
}

Result<std::shared_ptr<TlsContext>> TlsContext::create_client(const TlsTrust& trust) {
  auto context = TRY(adopt(create_context(TLS_client_method())));
  SSL_CTX_set_verify(context->native(), SSL_VERIFY_PEER, nullptr);
  TRY_VOID(load_authorities(context->native(), trust));
  for (const auto& certificate : TRY(read_certificates(trust.forbidden)))
    context->forbidden_keys_.push_back(key_digest(certificate.get()));
  SSL_CTX_set_cert_verify_callback(context->native(), verify_chain, &context->forbidden_keys_);
  // Sessions go to whoever asked for them and nowhere else.
  SSL_CTX_set_session_cache_mode(context->native(),
                                 SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context->native(), take_session);
  return context;
}

static Result<std::int64_t> unix_seconds(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1)
    return tls_error("read TLS certificate", "its validity");
  return timegm(&parts);
}

Result<TlsIdentity::Validity> TlsIdentity::validity() const {
  return Validity{.begins_unix = TRY(unix_seconds(X509_get0_notBefore(chain_.front()))),
                  .ends_unix = TRY(unix_seconds(X509_get0_notAfter(chain_.front())))};
}

TlsIdentity::~TlsIdentity() {
  for (X509* certificate : chain_) X509_free(certificate);
  EVP_PKEY_free(key_);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::create(std::span<x509_st* const> chain,
                                                               evp_pkey_st* key) {
  if (chain.empty() || key == nullptr)
    return make_error(ErrorCode::kInvalid, "create TLS identity", "certificate or key is missing");
  if (X509_check_private_key(chain.front(), key) != 1)
    return tls_error("match TLS key and certificate");
  std::shared_ptr<TlsIdentity> identity(new TlsIdentity);
  EVP_PKEY_up_ref(key);
  identity->key_ = key;
  for (X509* certificate : chain) {
    X509_up_ref(certificate);
    identity->chain_.push_back(certificate);
  }
  return identity;
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::from_pem(std::string_view chain,
                                                                 std::string_view key) {
  const auto certificates = TRY(read_certificates(chain));
  const UniqueBio bio(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())));
  // An empty passphrase, so that an encrypted key is refused instead of asked for at a terminal.
  char no_passphrase[] = "";
  const UniqueKey read(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, no_passphrase));
  if (read == nullptr) return tls_error("read TLS key");
  std::vector<X509*> plain;
  for (const auto& certificate : certificates) plain.push_back(certificate.get());
  return create(plain, read.get());
}

}  // namespace pons::http
