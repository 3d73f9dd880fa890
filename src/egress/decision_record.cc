#include "decision_record.h"

#include "pons/base/log.h"
#include "pons/scan/scanner.h"

namespace pons::egress {

namespace {

constexpr std::string_view kWithheld = "(withheld)";

void withhold(const scan::NeedleSets& forbidden, std::string& text) {
  if (text.size() >= scan::kNeedleBytesMin && scan::scan_text(forbidden, text)) text = kWithheld;
}

}  // namespace

void record_decision(Boundary& boundary, AttachedSandbox& sandbox, audit::Decision decision) {
  const auto secrets = boundary.secrets.current();
  const auto stubs = sandbox.stubs(boundary.vault);
  if (!secrets || !stubs) {
    // Nothing can be looked for, so nothing is known to be harmless.
    decision.method = decision.path = kWithheld;
  } else {
    scan::NeedleSets forbidden;
    if (*secrets != nullptr) forbidden.push_back(*secrets);
    if (*stubs != nullptr) forbidden.push_back(*stubs);
    if (!forbidden.empty())
      for (std::string* text : {&decision.method, &decision.host, &decision.path})
        withhold(forbidden, *text);
  }
  decision.sandbox = sandbox.id;
  if (const auto recorded = boundary.audit.append(decision); !recorded)
    LOG_ERROR("a decision is not in the audit log", {"error", recorded.error()});
}

}  // namespace pons::egress
