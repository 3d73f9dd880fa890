#include "authority_rotation.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "certificate.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"

namespace pons::egress {

AuthorityRotation::AuthorityRotation(CertificateAuthority& authority) : authority_(authority) {
  for (const x509_st* certificate : authority_.trusted())
    laid_out_.insert(fingerprint(certificate));
}

std::string AuthorityRotation::fingerprint(const x509_st* certificate) {
  return sha256_hex(to_der(certificate));
}

bool AuthorityRotation::is_trusted(const x509_st* certificate) const {
  return laid_out_.contains(fingerprint(certificate));
}

Result<void> AuthorityRotation::rotate() {
  const auto trusted = authority_.trusted();
  if (trusted.size() > 1 && !is_trusted(trusted.back()))
    return make_error(ErrorCode::kConflict, "rotate certificate authority",
                      "sandboxes do not trust the next one yet: restart Pons first");
  return authority_.rotate();
}

Json AuthorityRotation::describe() const {
  const auto trusted = authority_.trusted();
  Json json = {{"current",
                {{"sha256", fingerprint(trusted.front())},
                 {"not_after_unix_s", std::chrono::duration_cast<std::chrono::seconds>(
                                          authority_.not_after().time_since_epoch())
                                          .count()}}}};
  if (trusted.size() > 1)
    json["next"] = {{"sha256", fingerprint(trusted.back())},
                    {"trusted", is_trusted(trusted.back())}};
  return json;
}

std::vector<http::Route> authority_routes(AuthorityRotation& rotation,
                                          RefuseUnlessOperator refuse) {
  using Step = Result<void> (*)(AuthorityRotation&);
  const auto handler = [&rotation, refuse](Step step) -> http::RouteHandler {
    return [&rotation, refuse, step](http::Exchange& exchange, const http::PathValues&) -> Task<> {
      if (refuse(exchange)) co_return;
      if (const auto done = step(rotation); !done)
        co_return exchange.respond(http::error_response(done.error()));
      exchange.respond({.body = dump_json(rotation.describe()) + "\n"});
    };
  };
  return {
      {"GET", "/authority", handler([](AuthorityRotation&) { return Result<void>(); })},
      {"POST", "/authority/prepare", handler([](AuthorityRotation& all) { return all.prepare(); })},
      {"POST", "/authority/rotate", handler([](AuthorityRotation& all) { return all.rotate(); })}};
}

}  // namespace pons::egress
