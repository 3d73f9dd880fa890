#pragma once

#include "pons/base/clock.h"
#include "pons/http/client.h"
#include "sandbox_records.h"

namespace pons::brain {

// Tells the gateway how long sandboxes have run, once they have ended: it keeps the budgets. What
// was told and not marked before the process died is told again; the gateway charges it once.
class SandboxBills {
 public:
  SandboxBills(linux::Loop& loop, http::Connector gateway, SandboxRecords& records,
               const Clock& clock)
      : loop_(loop),
        client_(loop, std::move(gateway), "gateway"),
        records_(records),
        clock_(clock) {}

  Task<> keep_going();
  // Some of those that are unpaid; how many there were.
  Task<Result<std::size_t>> send_some();

 private:
  linux::Loop& loop_;
  http::Client client_;
  SandboxRecords& records_;
  const Clock& clock_;
};

}  // namespace pons::brain
