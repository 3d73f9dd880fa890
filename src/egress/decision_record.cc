#include "decision_record.h"

#include "discretion.h"
#include "pons/base/log.h"

namespace pons::egress {

namespace {

audit::Decision discreet(const Boundary& boundary, AttachedSandbox& sandbox,
                         audit::Decision decision) {
  decision.aliases = sandbox.aliases_of(decision.host);
  for (std::string& alias : decision.aliases) alias = for_the_record(boundary, sandbox, alias);
  for (std::string* text : {&decision.method, &decision.host, &decision.path})
    *text = for_the_record(boundary, sandbox, *text);
  decision.sandbox = sandbox.id;
  return decision;
}

}  // namespace

void record_decision(Boundary& boundary, AttachedSandbox& sandbox, audit::Decision decision) {
  decision = discreet(boundary, sandbox, std::move(decision));
  boundary.metrics.count(decision);
  if (const auto recorded = boundary.audit.append(decision); !recorded)
    LOG_ERROR("a decision is not in the audit log", {"error", recorded.error()});
}

audit::AuditLog::Underway record_beginning(Boundary& boundary, AttachedSandbox& sandbox,
                                           audit::Decision decision) {
  return boundary.audit.begin(discreet(boundary, sandbox, std::move(decision)));
}

}  // namespace pons::egress
