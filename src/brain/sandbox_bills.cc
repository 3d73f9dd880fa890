#include "sandbox_bills.h"

#include <nlohmann/json.hpp>

#include "pons/base/json_place.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"

namespace pons::brain {

namespace {

constexpr std::int64_t kAtOnce = 200;
constexpr Duration kBetween = std::chrono::seconds(2);
constexpr Duration kAfterFailure = std::chrono::seconds(30);
constexpr std::size_t kAnswerBytesMax = std::size_t{1} << 20;
constexpr std::size_t kLimitedMax = 100'000;

}  // namespace

std::int64_t SandboxBills::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
      .count();
}

Task<Result<std::string>> SandboxBills::ask(const char* step, std::string target,
                                            std::string body) {
  CO_TRY(auto response, co_await client_.send({.method = "POST",
                                               .target = std::move(target),
                                               .fields = {{"content-type", "application/json"}},
                                               .body = std::move(body)}));
  CO_TRY(auto text, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() != 200) co_return http::error_of(step, response.status(), text);
  co_return text;
}

Task<Result<std::size_t>> SandboxBills::send_some() {
  CO_TRY(const auto unpaid, co_await records_.list_unpaid(kAtOnce));
  if (unpaid.empty()) co_return std::size_t{0};
  Json bill = Json::array();
  std::vector<std::string> ids;
  for (const UnpaidSandbox& one : unpaid) {
    Json entry = {{"id", one.id}, {"project", one.project_id}, {"seconds", one.seconds}};
    if (!one.agent.empty()) entry["agent"] = one.agent;
    bill.push_back(std::move(entry));
    ids.push_back(one.id);
  }
  CO_TRY_VOID(co_await ask("charge sandboxes", "/sandbox-time", dump_json(bill)));
  const std::size_t count = ids.size();
  CO_TRY_VOID(co_await records_.mark_paid(std::move(ids), now_ms()));
  co_return count;
}

Task<Result<void>> SandboxBills::tell_running() {
  CO_TRY(const auto unpaid, co_await records_.sum_unpaid(now_ms()));
  Json running = Json::array();
  for (const UnpaidTime& one : unpaid) {
    Json entry = {{"project", one.project_id}, {"seconds", one.seconds}};
    if (!one.agent.empty()) entry["agent"] = one.agent;
    running.push_back(std::move(entry));
  }
  CO_TRY(const auto text,
         co_await ask("tell of sandboxes", "/sandbox-time/running", dump_json(running)));
  CO_TRY(const Json json, parse_json(text, {.depth = 4, .bytes = kAnswerBytesMax}));
  const JsonPlace place{.value = json, .pointer = {}};
  if (!json.is_object() || !place.has("limited")) co_return place.refuse("it says too little");
  const JsonPlace list = place.at("limited");
  CO_TRY_VOID(list.expect_list(kLimitedMax));
  std::set<std::string, std::less<>> limited;
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    CO_TRY(auto project, list.at(i).text());
    limited.insert(std::move(project));
  }
  limited_ = std::move(limited);
  co_return {};
}

Task<Result<void>> SandboxBills::may_begin(WantedSandbox wanted) {
  if (limited_ && !limited_->contains(wanted.project)) co_return {};
  CO_TRY(const bool is_there, co_await records_.is_open(std::move(wanted.id)));
  if (is_there) co_return {};
  Json question = {{"project", wanted.project}};
  if (!wanted.session.empty()) {
    CO_TRY(auto agent, co_await records_.agent_of(wanted.project, std::move(wanted.session)));
    if (!agent.empty()) question["agent"] = std::move(agent);
  }
  CO_TRY_VOID(co_await ask("ask for a sandbox", "/sandbox-time/admissions", dump_json(question)));
  co_return {};
}

Task<> SandboxBills::keep_going() {
  for (;;) {
    const auto sent = co_await send_some();
    if (!sent)
      LOG_WARN("time of sandboxes waits to be charged", {"error", sent.error()});
    else if (*sent == static_cast<std::size_t>(kAtOnce))
      continue;  // there are more
    // Behind what was charged, so that nothing counts twice for long.
    if (const auto told = co_await tell_running(); !told)
      LOG_DEBUG("budgets do not know which sandboxes run", {"error", told.error()});
    co_await loop_.sleep_for(sent ? kBetween : kAfterFailure);
  }
}

}  // namespace pons::brain
