#include "recorded_hands.h"

namespace pons::brain {

std::int64_t RecordedHands::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

template <class Order>
SandboxRecord RecordedHands::record_of(const Order& order) const {
  return {.what = SandboxRecord::What::kCreate,
          .id = order.sandbox,
          .project_id = order.project,
          .at_ms = now_ms(),
          .sandbox_template = order.sandbox_template,
          .metadata = "{}",
          .reason = {},
          .session = order.session};
}

Task<Result<void>> RecordedHands::may_begin(const SandboxRecord& record) {
  if (bills_ == nullptr) co_return {};
  co_return co_await bills_->may_begin(
      {.id = record.id, .project = record.project_id, .session = record.session});
}

// One that may not be on record is nobody's, and is ended.
Task<Result<void>> RecordedHands::keep(SandboxRecord record) {
  const std::string sandbox = record.id;
  CO_TRY(const auto refused, co_await records_.keep({std::move(record)}));
  if (refused.empty()) co_return {};
  (void)co_await hands_.destroy(sandbox);
  co_return refused.front().error;
}

Task<Result<session::ProvisionReport>> RecordedHands::provision(session::ProvisionOrder order) {
  SandboxRecord record = record_of(order);
  CO_TRY_VOID(co_await may_begin(record));
  CO_TRY(auto report, co_await hands_.provision(std::move(order)));
  CO_TRY_VOID(co_await keep(std::move(record)));
  co_return report;
}

Task<Result<void>> RecordedHands::copy(session::CopyOrder order) {
  SandboxRecord record = record_of(order);
  CO_TRY_VOID(co_await may_begin(record));
  CO_TRY_VOID(co_await hands_.copy(std::move(order)));
  co_return co_await keep(std::move(record));
}

Task<Result<void>> RecordedHands::destroy(std::string sandbox) {
  CO_TRY_VOID(co_await hands_.destroy(sandbox));
  co_return co_await records_.end(std::move(sandbox), "released", now_ms());
}

}  // namespace pons::brain
