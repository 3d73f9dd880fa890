#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/egress/authority.h"
#include "pons/http/tls.h"

namespace pons::egress {

// Certificates for the hosts whose TLS egress ends itself: each for exactly one name, valid for
// days, made when it is first needed. All share one key that never leaves the process.
class LeafCache {
 public:
  static constexpr std::size_t kHostsMax = 1024;

  // The authority and the clock must outlive it.
  static Result<std::unique_ptr<LeafCache>> create(const CertificateAuthority& authority,
                                                   const Clock& clock,
                                                   std::size_t hosts_max = kHostsMax);
  LeafCache(const LeafCache&) = delete;
  LeafCache& operator=(const LeafCache&) = delete;
  ~LeafCache();

  // `host` is a canonical name (lower case, no dot at its end, no wildcard) or a numeric address.
  // The identity stays usable when the cache drops it.
  Result<std::shared_ptr<const http::TlsIdentity>> find_or_sign(const std::string& host);
  std::size_t size() const { return by_host_.size(); }

 private:
  struct Parts;
  struct Entry {
    std::string host;
    std::shared_ptr<const http::TlsIdentity> identity;
    WallTime not_after;
  };
  LeafCache(const CertificateAuthority& authority, const Clock& clock, std::size_t hosts_max);
  Result<void> follow_authority();
  Result<Entry> sign(const std::string& host) const;

  const CertificateAuthority& authority_;
  const Clock& clock_;
  std::size_t hosts_max_;
  std::unique_ptr<Parts> parts_;
  std::list<Entry> entries_;  // the one used last first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_host_;
};

}  // namespace pons::egress
