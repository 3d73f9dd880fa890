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

Tone tone_of(sandbox::State state) {
  return state == sandbox::State::kRunning ? Tone::kGood : Tone::kDim;
}

Task<Result<int>> list(Session& session) {
  CO_TRY(const auto sandboxes, co_await session.provider.list());
  if (session.common.json) {
    Json all = Json::array();
    for (const auto& info : sandboxes) all.push_back(sandbox::to_json(info));
    print_json({{"sandboxes", std::move(all)}});
    co_return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"TEMPLATE", Tone::kDim},
                                          {"STATE", Tone::kDim},
                                          {"AGE", Tone::kDim},
                                          {"JOBS", Tone::kDim},
                                          {"MEMORY", Tone::kDim}}};
  for (const auto& info : sandboxes) {
    // One that ends meanwhile has no figures, and that is no reason to show nothing.
    const auto metrics = co_await session.provider.metrics(info.id);
    const bool counted = metrics && metrics->memory_bytes;
    rows.push_back({info.id,
                    info.template_name,
                    {std::string(sandbox::name_of(info.state)), tone_of(info.state)},
                    age_of(info.created_unix_ms),
                    fmt::format("{}", info.jobs_running),
                    counted ? fmt::format("{} / {}", human_bytes(*metrics->memory_bytes),
                                          human_bytes(info.limits.memory_bytes))
                            : "-"});
  }
  print_table(rows);
  co_return 0;
}

Task<Result<int>> inspect(Session& session, std::string id) {
  CO_TRY(const auto info, co_await session.provider.inspect(id));
  const auto metrics = co_await session.provider.metrics(id);
  const auto jobs = co_await session.provider.list_jobs(id);
  Json all = sandbox::to_json(info);
  all["metrics"] = metrics ? sandbox::to_json(*metrics) : Json();
  all["jobs"] = Json::array();
  if (jobs)
    for (const auto& job : *jobs) all["jobs"].push_back(sandbox::to_json(job));
  // Indented JSON is what people read best here, too; text in it is escaped, so that no terminal
  // obeys it.
  fmt::print("{}\n",
             all.dump(session.common.json ? -1 : 2, ' ', true, Json::error_handler_t::replace));
  co_return 0;
}

}  // namespace

void add_sandbox_ls(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("ls", "List the sandboxes");
  explain(*command, "Lists every sandbox: its template, state, age, running jobs and memory.");
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox ls\n"
      "  pons sandbox ls --json | jq -r '.sandboxes[].id'");
  command->callback([&common, &exit_code] {
    exit_code = run_session(common, [](Session& s) { return list(s); });
  });
}

void add_sandbox_inspect(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("inspect", "Show all that is known about a sandbox");
  auto id = std::make_shared<std::string>();
  explain(*command, "Shows limits, checkpoints, labels, figures and jobs of one sandbox, as JSON.");
  command->add_option("SANDBOX", *id, "Its id")->required();
  add_session_options(*command, common);
  command->footer("EXAMPLES\n  pons sandbox inspect work");
  command->callback([&common, &exit_code, id] {
    exit_code = run_session(common, [id](Session& s) { return inspect(s, *id); });
  });
}

}  // namespace pons::cli
