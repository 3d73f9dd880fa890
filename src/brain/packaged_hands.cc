#include "packaged_hands.h"

namespace pons::brain {

// What was there may have been removed by the operator: it is made once more.
Task<Result<session::ProvisionReport>> PackagedHands::provision(session::ProvisionOrder order) {
  const std::string digest(managed::digest_in(order.sandbox_template));
  if (digest.empty()) co_return co_await hands_.provision(std::move(order));
  CO_TRY_VOID(co_await builds_.wait_for(digest, patience_));
  auto report = co_await hands_.provision(order);
  if (report || report.error().code != ErrorCode::kNotFound) co_return report;
  builds_.forget(digest);
  CO_TRY_VOID(co_await builds_.wait_for(digest, patience_));
  co_return co_await hands_.provision(std::move(order));
}

}  // namespace pons::brain
