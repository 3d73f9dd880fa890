#include "facts.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "failure.h"
#include "pons/base/json.h"
#include "pons/base/text.h"

namespace pons::e2b {

namespace {

using sandbox::Metrics;

constexpr Duration kSampleTime = std::chrono::milliseconds(100);
constexpr std::uint32_t kWholeProcessor = 100;
constexpr std::uint64_t kMebibyte = 1ULL << 20;
constexpr std::size_t kVariablesBytesMax = 256 * 1024;
constexpr Duration kListTime = std::chrono::seconds(10);

void answer(Call& call, const Result<Json>& facts) {
  if (facts) {
    call.exchange.respond({.body = dump_json(*facts)});
  } else if (is_gone(facts.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    respond_failure(call.exchange, facts.error());
  }
}

// Of one processor, between two looks.
double processor_percent(const Metrics& before, const Metrics& after) {
  if (!before.cpu_usec || !after.cpu_usec || *after.cpu_usec < *before.cpu_usec) return 0;
  const auto sample = std::chrono::duration<double, std::micro>(kSampleTime).count();
  return static_cast<double>(*after.cpu_usec - *before.cpu_usec) / sample * 100;
}

Task<Result<Json>> usage(Call& call) {
  const auto look = [&call] { return call.provider.metrics(call.id()); };
  CO_TRY(const auto before, co_await call.awake(look));
  co_await call.loop.sleep_for(kSampleTime);
  CO_TRY(const auto now, co_await call.awake(look));
  const std::uint64_t memory = now.memory_bytes.value_or(0);
  const auto wall = SystemClock().wall().time_since_epoch();
  co_return Json{
      {"ts", std::chrono::duration_cast<std::chrono::seconds>(wall).count()},
      {"cpu_count", std::max(1U, now.cpu_percent_max / kWholeProcessor)},
      {"cpu_used_pct", processor_percent(before, now)},
      {"mem_total", now.memory_bytes_max},
      {"mem_used", memory},
      {"mem_cache", now.memory_cache_bytes.value_or(0)},
      {"mem_total_mib", now.memory_bytes_max / kMebibyte},
      {"mem_used_mib", memory / kMebibyte},
      {"disk_total", now.disk_bytes_max},
      {"disk_used", now.disk_bytes.value_or(0)},
  };
}

// The sandbox's own `env` says it; its words are no more than what a process there could say.
Task<Result<Json>> variables(Call& call) {
  const TimePoint deadline = call.loop.now() + kListTime;
  const sandbox::JobSpec job{
      .argv = {"env", "-0"},
      .timeout = std::chrono::duration_cast<sandbox::Milliseconds>(kListTime),
      .output_bytes_max = kVariablesBytesMax};
  CO_TRY(const auto stream,
         co_await call.awake([&] { return call.provider.execute(call.id(), job); }));
  std::string text;
  for (;;) {
    CO_TRY(const auto event, co_await stream->next(deadline));
    if (!event) break;
    const auto* output = std::get_if<sandbox::Output>(&*event);
    if (output != nullptr && output->stream == sandbox::Output::Stream::kOutput)
      text += output->bytes;
  }
  Json all = Json::object();
  for (const std::string_view entry : split(text, '\0')) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos && is_valid_utf8(entry))
      all[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  co_return all;
}

}  // namespace

Task<> answer_metrics(Call& call) {
  answer(call, co_await usage(call));
}

Task<> answer_environment(Call& call) {
  answer(call, co_await variables(call));
}

}  // namespace pons::e2b
