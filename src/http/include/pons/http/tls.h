#pragma once

#include <memory>
#include <string>

#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/transport.h"

struct ssl_ctx_st;

namespace pons::http {

// Keys, certificates and rules for TLS 1.2 and 1.3. Immutable; replace the object to reload (live
// connections keep the one they began with).
class TlsContext {
 public:
  // PEM files; the certificate file holds the whole chain. Key and certificate must fit each other.
  static Result<std::shared_ptr<TlsContext>> create_server(const std::string& certificate_file,
                                                           const std::string& key_file);
  // Trusts the system's authorities, or only those in `authority_file` when it is not empty. Always
  // verifies.
  static Result<std::shared_ptr<TlsContext>> create_client(const std::string& authority_file = {});

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();
  ssl_ctx_st* native() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

// Both complete the handshake before the deadline or give the connection up.
Task<Result<std::unique_ptr<Transport>>> accept_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                    std::shared_ptr<TlsContext> context,
                                                    TimePoint deadline);
// The peer's certificate must be valid for `host` (a DNS name or a numeric address).
Task<Result<std::unique_ptr<Transport>>> connect_tls(linux::Loop& loop, linux::UniqueFd socket,
                                                     std::shared_ptr<TlsContext> context,
                                                     std::string host, TimePoint deadline);

}  // namespace pons::http
