#pragma once

#include <set>
#include <string>
#include <vector>

#include "pons/base/json.h"
#include "pons/egress/authority.h"
#include "pons/http/exchange.h"
#include "pons/http/router.h"

namespace pons::egress {

// The operator's two steps from one authority to the next, with a start of Pons between them: what
// sandboxes trust is laid out at the start, and no sandbox outlives it.
class AuthorityRotation {
 public:
  // When the trust of sandboxes has just been laid out. `authority` outlives it.
  explicit AuthorityRotation(CertificateAuthority& authority);

  Result<void> prepare() { return authority_.prepare_rotation(); }
  // kConflict when there is no next one, or sandboxes may be there that do not trust it.
  Result<void> rotate();
  // {"current": {"sha256", "not_after"}, "next": {"sha256", "trusted"}}; the latter may be missing.
  Json describe() const;

 private:
  static std::string fingerprint(const x509_st* certificate);
  bool is_trusted(const x509_st* certificate) const;

  CertificateAuthority& authority_;
  std::set<std::string> laid_out_;  // fingerprints
};

//   GET  /authority
//   POST /authority/prepare
//   POST /authority/rotate
// `refuse` answers whoever may not ask. `rotation` outlives the routes.
using RefuseUnlessOperator = bool (*)(http::Exchange&);
std::vector<http::Route> authority_routes(AuthorityRotation& rotation, RefuseUnlessOperator refuse);

}  // namespace pons::egress
