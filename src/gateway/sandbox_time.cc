#include <chrono>
#include <set>

#include <fmt/format.h>

#include "pons/base/json_place.h"
#include "pons/base/log.h"
#include "pons/http/error_status.h"
#include "refusals.h"
#include "routes.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kRequestBytesMax = 256 * 1024;
constexpr std::size_t kRunningBytesMax = std::size_t{2} << 20;
constexpr std::size_t kSandboxesMax = 500;
constexpr std::size_t kRunningMax = 5'000;  // projects, and agents of them
constexpr std::uint64_t kSecondsMax = 31ULL * 86'400;
constexpr std::uint64_t kSumMax = 1'000'000'000'000;

// Whose sandboxes: a project's, or those that an agent of it has taken.
struct Whose {
  std::string project;
  std::string agent = {};  // empty: none has
};

struct Time {
  std::string id = {};  // of the sandbox, if it is one
  Whose whose;
  std::int64_t seconds = 0;
};

Result<Whose> read_whose(const JsonPlace& place) {
  if (!place.has("project")) return place.refuse("has no project");
  Whose whose{.project = TRY(place.at("project").text())};
  if (place.has("agent")) whose.agent = TRY(place.at("agent").text());
  return whose;
}

enum class Of : std::uint8_t { kOne, kSum };

Result<Time> read_time(const JsonPlace& place, Of of) {
  Time time;
  if (of == Of::kOne) {
    TRY_VOID(place.expect_object({"id", "project", "agent", "seconds"}));
    if (!place.has("id")) return place.refuse("has no id");
    time.id = TRY(place.at("id").text());
  } else {
    TRY_VOID(place.expect_object({"project", "agent", "seconds"}));
  }
  time.whose = TRY(read_whose(place));
  if (!place.has("seconds")) return place.refuse("has no seconds");
  time.seconds = static_cast<std::int64_t>(
      TRY(place.at("seconds").number(1, of == Of::kOne ? kSecondsMax : kSumMax)));
  return time;
}

Result<std::vector<Time>> read_times(std::string_view body, Of of) {
  const Json json = TRY(parse_json(body, {.depth = 4, .bytes = kRunningBytesMax}));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_list(of == Of::kOne ? kSandboxesMax : kRunningMax));
  std::vector<Time> all;
  for (std::size_t i = 0; i < json.size(); ++i) all.push_back(TRY(read_time(place.at(i), of)));
  return all;
}

// The key that is charged. An agent that was revoked has still used what it has: its project pays.
Task<Result<std::string>> payer(budget::Keys& keys, const Whose& whose) {
  if (!whose.agent.empty()) {
    const auto agent = co_await keys.ensure_agent(whose.project, whose.agent);
    if (agent) co_return agent->id;
    if (agent.error().code != ErrorCode::kDenied) co_return agent.error();
  }
  CO_TRY(const budget::Key root, co_await keys.ensure_root(whose.project));
  co_return root.id;
}

Task<Result<Json>> charge(budget::Book& book, http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const auto all, read_times(body, Of::kOne));
  std::size_t charged = 0;
  for (const Time& one : all) {
    CO_TRY(auto key, co_await payer(book.keys(), one.whose));
    const auto is_new = co_await book.charge_sandbox(std::move(key), one.id, one.seconds);
    const bool is_final = !is_new && is_new.error().code == ErrorCode::kDenied;
    if (!is_new && !is_final) co_return is_new.error();
    // What can never be charged keeps nobody else's time from being charged.
    if (is_final)
      LOG_WARN("the time of a sandbox is not charged", {"sandbox", one.id},
               {"error", is_new.error()});
    else
      charged += *is_new ? 1 : 0;
  }
  co_return Json{{"charged", charged}};
}

Task<Result<Json>> hold(budget::Book& book, http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRunningBytesMax));
  CO_TRY(const auto all, read_times(body, Of::kSum));
  budget::TextMap<std::int64_t> seconds;
  for (const Time& one : all) {
    CO_TRY(auto key, co_await payer(book.keys(), one.whose));
    seconds[std::move(key)] += one.seconds;
  }
  book.hold_sandboxes(seconds);
  std::set<std::string> limited;
  book.keys().for_each({}, {}, [&](const budget::Key& key) {
    if (book.limits_sandboxes(key)) limited.insert(key.project_id);
  });
  co_return Json{{"limited", limited}};
}

// What whoever wanted it can do about it.
std::string advice(const budget::Refused& refused) {
  const std::string raise =
      fmt::format("the operator can raise it with `pons keys set {}`", refused.node);
  if (!refused.resets_at_ms) return raise;
  const std::chrono::sys_seconds at{std::chrono::seconds(*refused.resets_at_ms / 1'000)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{at - day};
  return fmt::format("it begins anew at {:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z; {}",
                     static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count(), time.seconds().count(), raise);
}

Task<Result<Json>> admit(budget::Book& book, http::Exchange& exchange) {
  CO_TRY(const auto body, co_await exchange.read_whole_body(kRequestBytesMax));
  CO_TRY(const Json json, parse_json(body));
  const JsonPlace place{.value = json, .pointer = {}};
  CO_TRY_VOID(place.expect_object({"project", "agent"}));
  CO_TRY(const Whose whose, read_whose(place));
  CO_TRY(const auto key, co_await payer(book.keys(), whose));
  budget::Refused refused;
  const auto admitted = book.admit_sandbox(key, &refused);
  if (admitted) co_return Json::object();
  if (admitted.error().code != ErrorCode::kLimit) co_return admitted.error();
  co_return make_error(ErrorCode::kLimit, "begin sandbox",
                       fmt::format("{}; {}", admitted.error().message, advice(refused)));
}

using Work = Task<Result<Json>> (*)(budget::Book&, http::Exchange&);

Task<> answer(Work work, budget::Book& book, http::Exchange& exchange) {
  if (exchange.peer().role != "brain") {
    exchange.respond(http::error_response(403, "denied", "this is for the brain"));
    co_return;
  }
  const auto done = co_await work(book, exchange);
  if (done)
    exchange.respond({.body = dump_json(*done) + "\n"});
  else
    exchange.respond(http::error_response(done.error()));
}

}  // namespace

std::vector<http::Route> sandbox_routes(Models& models) {
  const auto handler = [&models](Work work) -> http::RouteHandler {
    return [&models, work](http::Exchange& exchange, const http::PathValues&) {
      return answer(work, models.book, exchange);
    };
  };
  return {{"POST", "/sandbox-time", handler(charge)},
          {"POST", "/sandbox-time/running", handler(hold)},
          {"POST", "/sandbox-time/admissions", handler(admit)}};
}

}  // namespace pons::gateway
