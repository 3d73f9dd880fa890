#include "pons/audit/routes.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::audit {

namespace {

Task<> answer_head(http::Exchange& exchange, const AuditLog& log, Refusal refuse) {
  if (refuse(exchange)) co_return;
  exchange.respond({.body = dump_json({{"seq", log.head().seq},
                                       {"hash", log.head().hash},
                                       {"written", log.counts().written},
                                       {"suppressed", log.counts().suppressed},
                                       {"lost", log.counts().lost}}) +
                            "\n"});
}

}  // namespace

std::vector<http::Route> audit_routes(const AuditLog& log, Refusal refuse) {
  return {{"GET", "/audit", [&log, refuse](http::Exchange& exchange, const http::PathValues&) {
             return answer_head(exchange, log, refuse);
           }}};
}

}  // namespace pons::audit
