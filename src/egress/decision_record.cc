#include "decision_record.h"

#include "discretion.h"
#include "pons/base/log.h"

namespace pons::egress {

void record_decision(Boundary& boundary, AttachedSandbox& sandbox, audit::Decision decision) {
  for (std::string* text : {&decision.method, &decision.host, &decision.path})
    *text = for_the_record(boundary, sandbox, *text);
  decision.sandbox = sandbox.id;
  boundary.metrics.count(decision);
  if (const auto recorded = boundary.audit.append(decision); !recorded)
    LOG_ERROR("a decision is not in the audit log", {"error", recorded.error()});
}

}  // namespace pons::egress
