#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/tls_sessions.h"
#include "pons/http/transport.h"

struct ssl_ctx_st;
struct x509_st;
struct evp_pkey_st;

namespace pons::http {

class TlsIdentity;

// Whom a client believes. A chain that holds a certificate with the key of one of `forbidden` is
// refused, whoever else vouches for it: that is how a proxy never mistakes itself for the origin.
struct TlsTrust {
  std::string authority_file;    // PEM; empty: the system's authorities
  std::string forbidden;         // PEM text, any number of certificates
  std::string authorities = {};  // PEM text instead of a file, for a process that cannot open it
};

// Keys, certificates and rules for TLS 1.2 and 1.3. Immutable; replace the object to reload (live
// connections keep the one they began with).
class TlsContext {
 public:
  // PEM files; the certificate file holds the whole chain. Key and certificate must fit each other.
  static Result<std::shared_ptr<TlsContext>> create_server(const std::string& certificate_file,
                                                           const std::string& key_file);
  // From memory, for a process that opens no files. Sessions are resumed by tickets only.
  static Result<std::shared_ptr<TlsContext>> create_server(const TlsIdentity& identity);
  // Has no certificate: each connection brings its identity. Nothing is remembered from one
  // connection to the next, so no client can resume what another one began.
  static Result<std::shared_ptr<TlsContext>> create_server();
  // Always verifies.
  static Result<std::shared_ptr<TlsContext>> create_client(const TlsTrust& trust);
  static Result<std::shared_ptr<TlsContext>> create_client(const std::string& authority_file = {}) {
    return create_client(TlsTrust{.authority_file = authority_file, .forbidden = {}});
  }

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();
  ssl_ctx_st* native() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  static Result<std::shared_ptr<TlsContext>> adopt(Result<ssl_ctx_st*> context);
  ssl_ctx_st* context_;
  std::vector<std::string> forbidden_keys_;
};

// A certificate, what stands between it and its authority, and its key. Immutable.
class TlsIdentity {
 public:
  // The leaf comes first in `chain`.
  static Result<std::shared_ptr<const TlsIdentity>> from_pem(std::string_view chain,
                                                             std::string_view key);
  // Takes references of its own. The key must fit the first certificate.
  static Result<std::shared_ptr<const TlsIdentity>> create(std::span<x509_st* const> chain,
                                                           evp_pkey_st* key);
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;
  ~TlsIdentity();
  // Of the first certificate, in seconds since 1970: it is valid from then until then.
  struct Validity {
    std::int64_t begins_unix = 0;
    std::int64_t ends_unix = 0;
  };
  Result<Validity> validity() const;
  std::span<x509_st* const> chain() const { return chain_; }
  evp_pkey_st* key() const { return key_; }

 private:
  TlsIdentity() = default;
  std::vector<x509_st*> chain_;
  evp_pkey_st* key_ = nullptr;
};

// A connection whose handshake is complete.
class TlsTransport : public Transport {
 public:
  // What both sides agreed on by ALPN; empty when they did not speak about it.
  virtual std::string_view protocol() const = 0;
  virtual bool was_resumed() const = 0;
};

struct TlsAccept {
  std::shared_ptr<TlsContext> context;
  std::shared_ptr<const TlsIdentity> identity;  // null: the context's own
  std::string first_bytes;  // already read from the socket: whoever looked at the greeting
  // What a client that offers protocols is answered: this one, or the connection ends; "" for no
  // answer at all. Without a value: "http/1.1".
  std::optional<std::string> protocol;
};

struct TlsConnect {
  std::shared_ptr<TlsContext> context;
  std::string host;  // a DNS name or a numeric address; the peer's certificate must be valid for it
  std::vector<std::string> protocols;  // offered by ALPN, the preferred one first
  // Sessions are resumed only between connections with the same key, host and offer: a key per
  // sandbox keeps sandboxes apart. Null: never.
  std::shared_ptr<TlsSessions> sessions;
  std::string session_key;
};

// All complete the handshake before the deadline or give the connection up.
Task<Result<std::unique_ptr<TlsTransport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                       TlsAccept how, TimePoint deadline);
Task<Result<std::unique_ptr<TlsTransport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                        TlsConnect how, TimePoint deadline);
Task<Result<std::unique_ptr<Transport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                    std::shared_ptr<TlsContext> context,
                                                    TimePoint deadline);
Task<Result<std::unique_ptr<Transport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                     std::shared_ptr<TlsContext> context,
                                                     std::string host, TimePoint deadline);

// Why a client that has only sent its greeting is turned away.
enum class TlsAlert : std::uint8_t {
  kHandshakeFailure = 40,
  kAccessDenied = 49,
  kDecodeError = 50,
  kInternalError = 80,
  kUnrecognizedName = 112,
  kNoApplicationProtocol = 120,
};
// The record to write to the bare socket, instead of a handshake, before closing it gently.
std::string tls_alert_record(TlsAlert alert);

}  // namespace pons::http
