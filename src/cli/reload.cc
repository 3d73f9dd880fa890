#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"

namespace pons::cli {

namespace {

std::string_view explain_outcome(std::string_view certificate) {
  if (certificate == "replaced") return "The new certificate is in use.";
  if (certificate == "unchanged") return "The certificate has not changed.";
  return "There is nothing to reload: tls.certificate is not set.";
}

Result<int> run_reload(const std::string& state_dir, const Common& common) {
  const Json answer = TRY(ask(state_dir, "supervisor", "POST", "/reload"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
  } else {
    fmt::print("{}\n", explain_outcome(answer.value("certificate", "")));
  }
  return 0;
}

}  // namespace

void add_reload(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* reload = add_state_command(
      app, common, exit_code, "reload", "Read the TLS certificate again",
      "Reads tls.certificate and tls.key of the running Pons again. New connections get the new "
      "certificate, open ones\n"
      "go on. Files that do not fit each other, or cannot be read, change nothing and are an "
      "error. "
      "All other settings\n"
      "take effect at a start only.",
      Prints::kData,
      [&common](const std::string& state_dir) { return run_reload(state_dir, common); });
  reload->footer(
      "EXIT STATUS\n  0 when what stands in the files is in use, 1 when it cannot be used.");
}

}  // namespace pons::cli
