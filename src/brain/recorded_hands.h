#pragma once

#include "pons/base/clock.h"
#include "pons/session/world.h"
#include "sandbox_bills.h"
#include "sandbox_records.h"

namespace pons::brain {

// Sandboxes of sessions, on record like all others: when each began and ended. None is made for
// which a budget has no room.
class RecordedHands final : public session::Hands {
 public:
  // `bills`: null where no budget is asked.
  RecordedHands(session::Hands& hands, SandboxRecords& records, const Clock& clock,
                SandboxBills* bills = nullptr)
      : hands_(hands), records_(records), clock_(clock), bills_(bills) {}

  Task<Result<session::ProvisionReport>> provision(session::ProvisionOrder order) override;
  Task<Result<void>> copy(session::CopyOrder order) override;
  Task<Result<session::ExecuteReport>> execute(session::ExecuteOrder order) override {
    return hands_.execute(std::move(order));
  }
  Task<Result<void>> stop(std::string sandbox, std::string call) override {
    return hands_.stop(std::move(sandbox), std::move(call));
  }
  Task<Result<void>> destroy(std::string sandbox) override;

 private:
  std::int64_t now_ms() const;
  template <class Order>
  SandboxRecord record_of(const Order& order) const;
  Task<Result<void>> keep(SandboxRecord record);
  Task<Result<void>> may_begin(const SandboxRecord& record);

  session::Hands& hands_;
  SandboxRecords& records_;
  const Clock& clock_;
  SandboxBills* bills_;
};

}  // namespace pons::brain
