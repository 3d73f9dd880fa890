#include "refusals.h"

#include <algorithm>
#include <chrono>

#include "pons/base/log.h"

namespace pons::gateway {

using models::Failing;
using models::Failure;

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Failure failure_of_refusal(const Error& error, const budget::Refused& refused,
                           std::int64_t now_ms) {
  if (error.code == ErrorCode::kLimit) {
    Failure failure{
        .kind = Failing::kBudget, .message = error.message, .code = "insufficient_quota"};
    if (refused.resets_at_ms)
      failure.retry_after =
          std::chrono::milliseconds(std::max<std::int64_t>(1'000, *refused.resets_at_ms - now_ms));
    return failure;
  }
  if (error.code == ErrorCode::kNotFound)
    return {.kind = Failing::kNotFound, .message = error.message, .code = "model_not_found"};
  if (error.code == ErrorCode::kDenied)
    return {.kind = Failing::kPermission, .message = error.message};
  if (error.code == ErrorCode::kInvalid)
    return {.kind = Failing::kInvalidRequest, .message = error.message};
  LOG_WARN("cannot reserve", {"error", error});
  return {.kind = Failing::kOverloaded,
          .message = "the ledger cannot be written now; try again",
          .retry_after = std::chrono::seconds(5)};
}

}  // namespace pons::gateway
