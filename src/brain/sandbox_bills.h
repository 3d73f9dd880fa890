#pragma once

#include <optional>
#include <set>
#include <string>

#include "pons/base/clock.h"
#include "pons/http/client.h"
#include "sandbox_records.h"

namespace pons::brain {

// A sandbox that somebody wants.
struct WantedSandbox {
  std::string id;
  std::string project;
  std::string session = {};  // that wants it; empty: none
};

// The gateway keeps the budgets: it is told how long sandboxes have run, once they have ended. What
// was told and not marked before the process died is told again; the gateway charges it once. It is
// also told how long those have run that go on, says whose sandboxes have limits, and is asked
// before one of theirs is made.
class SandboxBills {
 public:
  SandboxBills(linux::Loop& loop, http::Connector gateway, SandboxRecords& records,
               const Clock& clock)
      : loop_(loop),
        client_(loop, std::move(gateway), "gateway", {.first_byte_time = std::chrono::seconds(10)}),
        records_(records),
        clock_(clock) {}

  Task<> keep_going();
  // Some of those that are unpaid; how many there were.
  Task<Result<std::size_t>> send_some();
  Task<Result<void>> tell_running();
  // kLimit: a budget has no room for it. One that is there already may be used on. Asks nobody
  // where, as far as is known, there are no limits.
  Task<Result<void>> may_begin(WantedSandbox wanted);

 private:
  Task<Result<std::string>> ask(const char* step, std::string target, std::string body);
  std::int64_t now_ms() const;

  linux::Loop& loop_;
  http::Client client_;
  SandboxRecords& records_;
  const Clock& clock_;
  std::optional<std::set<std::string, std::less<>>> limited_;  // projects; nothing: not known yet
};

}  // namespace pons::brain
