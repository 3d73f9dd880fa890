#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "command.h"
#include "help.h"
#include "pons/roles/profile.h"
#include "pons/telemetry/merge.h"
#include "terminal.h"

namespace pons::cli {

namespace {

// A process that does not answer is left out, and said to be.
Result<int> print_metrics(const std::string& state_dir) {
  telemetry::Page all;
  const std::string first = TRY(ask_text(state_dir, "supervisor", "GET", "/metrics"));
  TRY_VOID(merge_page(all, "supervisor", first));
  int exit_code = 0;
  for (const roles::Profile& profile : roles::profiles()) {
    if (profile.role == roles::Role::kSpawner) continue;  // the warden speaks for it
    const auto text = ask_text(state_dir, profile.name, "GET", "/metrics");
    const auto merged = text ? merge_page(all, profile.name, *text) : Result<void>(text.error());
    if (merged) continue;
    print_warning(fmt::format("{}: {}", profile.name, merged.error().describe()));
    exit_code = 1;
  }
  fmt::print("{}", printable(all.text(), LineFeeds::kKept));
  return exit_code;
}

}  // namespace

void add_metrics(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* metrics = app.add_subcommand("metrics", "Print figures for programs that watch");
  explain(*metrics,
          "What all processes of a running Pons have counted since they were started, in the text "
          "format of Prometheus.\n"
          "Prometheus itself reads the same over metrics.listen.");
  add_config_options(*metrics, common);
  metrics->footer(
      "EXAMPLES\n"
      "  pons metrics | grep pons_model_tokens_total\n"
      "\n"
      "EXIT STATUS\n  0 when all processes answered, 1 when one did not.");
  metrics->callback([&] {
    exit_code = run_with_state(
        common, [](const std::string& state_dir) { return print_metrics(state_dir); });
  });
}

}  // namespace pons::cli
