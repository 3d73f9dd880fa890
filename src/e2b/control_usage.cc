// What sandboxes use, and which of them are no more.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "control_request.h"
#include "pons/base/log.h"
#include "pons/base/text.h"
#include "pons/http/query.h"
#include "shapes.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kSamplesMax = 120;
constexpr std::size_t kRememberedMax = 1'000;  // sandboxes
constexpr std::size_t kAskedMax = 100;         // sandboxes at once
constexpr Duration kLookAfter = std::chrono::seconds(30);

template <class Sample>
Json metric_json(const Sample& sample) {
  const sandbox::Metrics& usage = sample.usage;
  return {{"timestamp", rfc3339(sample.unix_ms)},
          {"timestampUnix", sample.unix_ms / 1000},
          {"cpuCount", std::max<std::uint32_t>(1, usage.cpu_percent_max / 100)},
          {"cpuUsedPct", sample.cpu_pct},
          {"memUsed", usage.memory_bytes.value_or(0)},
          {"memTotal", usage.memory_bytes_max},
          {"memCache", usage.memory_cache_bytes.value_or(0)},
          {"diskUsed", usage.disk_bytes.value_or(0)},
          {"diskTotal", usage.disk_bytes_max}};
}

Result<std::int64_t> read_time(std::string_view query, const char* name, std::int64_t otherwise) {
  const auto text = TRY(http::find_query(query, name));
  if (!text) return otherwise;
  const auto seconds = parse_decimal(*text);
  constexpr std::uint64_t kSecondsMax = 1ULL << 40;
  if (!seconds || *seconds > kSecondsMax)
    return make_error(ErrorCode::kInvalid, "read query",
                      std::string(name) + " is a time in seconds since 1970");
  return static_cast<std::int64_t>(*seconds) * 1000;
}

}  // namespace

Task<Result<const std::deque<ControlPlane::Sample>*>> ControlPlane::measure(
    sandbox::SandboxInfo info) {
  CO_TRY(const auto now, co_await provider_.metrics(info.id));
  if (usage_.size() > kRememberedMax) usage_.clear();
  std::deque<Sample>& samples = usage_[info.id];
  // Processor time since the last question, or since the sandbox began.
  const Sample before =
      samples.empty() ? Sample{.unix_ms = info.created_unix_ms, .usage = {}} : samples.back();
  Sample sample{.unix_ms = Request::now_unix_ms(), .usage = now};
  const std::uint64_t cpu = now.cpu_usec.value_or(0);
  const std::uint64_t cpu_before = std::min(cpu, before.usage.cpu_usec.value_or(0));
  const auto passed_ms = std::max<std::int64_t>(1, sample.unix_ms - before.unix_ms);
  sample.cpu_pct =
      100.0 * static_cast<double>(cpu - cpu_before) / (1000.0 * static_cast<double>(passed_ms));
  samples.push_back(sample);
  if (samples.size() > kSamplesMax) samples.pop_front();
  co_return &samples;
}

Task<Result<http::Response>> ControlPlane::metrics(Request request) {
  constexpr std::int64_t kRounding = 1000;  // callers say whole seconds
  const std::string_view query = request.exchange.request().query();
  CO_TRY(const auto start, read_time(query, "start", 0));
  CO_TRY(const auto end, read_time(query, "end", std::numeric_limits<std::int64_t>::max() / 2));
  CO_TRY(const auto info, co_await find(request.caller, request.word));
  CO_TRY(const auto* const samples, co_await measure(info));
  Json listed = Json::array();
  for (const Sample& sample : *samples)
    if (sample.unix_ms >= start - kRounding && sample.unix_ms <= end + kRounding)
      listed.push_back(metric_json(sample));
  co_return json_response(200, listed);
}

Task<Result<http::Response>> ControlPlane::metrics_of_several(Request request) {
  CO_TRY(const auto ids, http::find_query(request.exchange.request().query(), "sandbox_ids"));
  const std::string asked = ids.value_or("");
  const auto names = split(asked, ',');
  if (names.size() > kAskedMax)
    co_return make_error(ErrorCode::kInvalid, "read query", "sandbox_ids has more than 100 ids");
  Json found = Json::object();
  for (const std::string_view id : names) {
    const auto info = co_await find(request.caller, std::string(id));
    if (!info) continue;
    const auto samples = co_await measure(*info);
    if (samples) found[info->id] = metric_json((*samples)->back());
  }
  co_return json_response(200, {{"sandboxes", std::move(found)}});
}

// ---- ends

Task<> ControlPlane::follow_ends() {
  for (;;) {
    co_await loop_.sleep_for(kLookAfter);
    if (const auto done = co_await record_ends(); !done)
      LOG_DEBUG("ends of sandboxes are not on record yet", {"error", done.error()});
  }
}

// The records first: what is in them lived by then or was about to, so what is not among the living
// afterwards has ended.
Task<Result<void>> ControlPlane::record_ends() {
  std::vector<OpenRecord> open;
  for (std::string after;;) {
    CO_TRY(auto some, co_await surroundings_.list_open_records(after));
    if (some.empty()) break;
    after = some.back().id;
    std::ranges::move(some, std::back_inserter(open));
  }
  if (open.empty()) co_return {};
  const std::set<std::string> unborn = being_made_;
  CO_TRY(const auto living, co_await provider_.list());
  std::set<std::string> ids;
  for (const sandbox::SandboxInfo& info : living)
    if (info.state != sandbox::State::kEnded) ids.insert(info.id);
  for (const OpenRecord& record : open) {
    if (ids.contains(record.id) || unborn.contains(record.id)) continue;
    directory_.forget(record.id);
    usage_.erase(record.id);
    CO_TRY_VOID(co_await surroundings_.record_ended(record.project, record.id, "ended"));
  }
  co_return {};
}

}  // namespace pons::e2b
