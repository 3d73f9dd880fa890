#include "sandbox_bills.h"

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"

namespace pons::brain {

namespace {

constexpr std::int64_t kAtOnce = 200;
constexpr Duration kBetween = std::chrono::seconds(2);
constexpr Duration kAfterFailure = std::chrono::seconds(30);
constexpr std::size_t kAnswerBytesMax = 64 * 1024;

}  // namespace

Task<Result<std::size_t>> SandboxBills::send_some() {
  CO_TRY(const auto unpaid, co_await records_.list_unpaid(kAtOnce));
  if (unpaid.empty()) co_return std::size_t{0};
  Json bill = Json::array();
  std::vector<std::string> ids;
  for (const UnpaidSandbox& one : unpaid) {
    bill.push_back({{"id", one.id}, {"project", one.project_id}, {"seconds", one.seconds}});
    ids.push_back(one.id);
  }
  CO_TRY(auto response, co_await client_.send({.method = "POST",
                                               .target = "/sandbox-time",
                                               .fields = {{"content-type", "application/json"}},
                                               .body = dump_json(bill)}));
  CO_TRY(const auto body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200)
    co_return http::error_of("charge sandboxes", response.status(), body);
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
          .count();
  const std::size_t count = ids.size();
  CO_TRY_VOID(co_await records_.mark_paid(std::move(ids), now));
  co_return count;
}

Task<> SandboxBills::keep_going() {
  for (;;) {
    const auto sent = co_await send_some();
    if (!sent)
      LOG_WARN("time of sandboxes waits to be charged", {"error", sent.error()});
    else if (*sent == static_cast<std::size_t>(kAtOnce))
      continue;  // there are more
    co_await loop_.sleep_for(sent ? kBetween : kAfterFailure);
  }
}

}  // namespace pons::brain
