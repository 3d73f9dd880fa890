#include <unistd.h>

#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/base/text.h"
#include "pons/sandbox/wire.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr Duration kRefreshTime = std::chrono::seconds(2);
constexpr Duration kFirstLookTime = std::chrono::milliseconds(500);

struct Sample {
  sandbox::SandboxInfo info;
  std::optional<sandbox::Metrics> metrics;
  TimePoint when;
};
using Samples = std::map<std::string, Sample>;

Task<Result<Samples>> take_samples(Session& session) {
  CO_TRY(auto sandboxes, co_await session.provider.list());
  Samples samples;
  for (auto& info : sandboxes) {
    Sample sample{.info = std::move(info), .metrics = {}, .when = {}};
    if (auto metrics = co_await session.provider.metrics(sample.info.id)) sample.metrics = *metrics;
    sample.when = std::chrono::steady_clock::now();
    samples.emplace(sample.info.id, std::move(sample));
  }
  co_return samples;
}

// Percent of one processor between two looks.
std::optional<double> cpu_percent(const Samples& before, const Sample& now) {
  const auto found = before.find(now.info.id);
  if (found == before.end() || !found->second.metrics || !now.metrics) return std::nullopt;
  const auto& from = found->second.metrics->cpu_usec;
  const auto& to = now.metrics->cpu_usec;
  const double elapsed = std::chrono::duration<double>(now.when - found->second.when).count();
  if (!from || !to || *to < *from || elapsed <= 0) return std::nullopt;
  return static_cast<double>(*to - *from) / 1e6 / elapsed * 100;
}

std::string counted(const std::optional<std::uint64_t>& value, std::uint64_t max, auto show) {
  if (!value) return "-";
  return max == 0 ? show(*value) : fmt::format("{} / {}", show(*value), show(max));
}

void print_samples(const Samples& before, const Samples& now) {
  const auto number = [](std::uint64_t value) { return fmt::format("{}", value); };
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"STATE", Tone::kDim},
                                          {"CPU", Tone::kDim},
                                          {"MEMORY", Tone::kDim},
                                          {"PIDS", Tone::kDim},
                                          {"DISK", Tone::kDim},
                                          {"JOBS", Tone::kDim}}};
  for (const auto& [id, sample] : now) {
    const auto cpu = cpu_percent(before, sample);
    const sandbox::Metrics metrics = sample.metrics.value_or(sandbox::Metrics{});
    rows.push_back({id, std::string(sandbox::name_of(sample.info.state)),
                    cpu ? fmt::format("{:.1f} %", *cpu) : "-",
                    counted(metrics.memory_bytes, metrics.memory_bytes_max, human_bytes),
                    counted(metrics.pids, metrics.pids_max, number),
                    counted(metrics.disk_bytes, metrics.disk_bytes_max, human_bytes),
                    number(sample.info.jobs_running)});
  }
  print_table(rows);
}

void print_samples_json(const Samples& before, const Samples& now) {
  Json all = Json::array();
  for (const auto& [id, sample] : now) {
    const auto cpu = cpu_percent(before, sample);
    all.push_back({{"id", id},
                   {"state", sandbox::name_of(sample.info.state)},
                   {"cpu_percent", cpu ? Json(*cpu) : Json()},
                   {"metrics", sample.metrics ? sandbox::to_json(*sample.metrics) : Json()}});
  }
  print_json({{"sandboxes", std::move(all)}});
}

Task<Result<int>> watch(Session& session, bool once) {
  CO_TRY(Samples before, co_await take_samples(session));
  Duration pause = kFirstLookTime;
  for (;;) {
    co_await session.loop.sleep_for(pause);
    CO_TRY(Samples now, co_await take_samples(session));
    if (session.common.json) {
      print_samples_json(before, now);
    } else {
      if (!once && isatty(STDOUT_FILENO) == 1) fmt::print("\x1b[H\x1b[2J");
      print_samples(before, now);
    }
    std::fflush(stdout);
    if (once || std::ferror(stdout) != 0) co_return 0;
    before = std::move(now);
    pause = kRefreshTime;
  }
}

}  // namespace

void add_sandbox_top(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("top", "Show what the sandboxes use, again and again");
  auto once = std::make_shared<bool>(false);
  explain(
      *command,
      "Shows processor, memory, processes and disk of every sandbox against its limits, every two "
      "seconds until Ctrl-C.");
  command->add_flag("--once", *once, "Show it once");
  add_session_options(*command, common);
  command->footer("EXAMPLES\n  pons sandbox top\n  pons sandbox top --once --json");
  command->callback([&common, &exit_code, once] {
    exit_code = run_session(common, [once](Session& s) { return watch(s, *once); });
  });
}

}  // namespace pons::cli
