#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/base/text.h"
#include "terminal.h"

namespace pons::cli {

namespace {

void print_status(const Json& status) {
  fmt::print("Pons {} (pid {}), up {}, {}\n", printable(status.value("version", "")),
             status.value("pid", 0), human_duration(status.value("uptime_ms", 0ULL)),
             status.value("ready", false) ? "ready" : "not ready yet");
  fmt::print("listening on {}{}, state in {}\n\n", status.value("tls", false) ? "https://" : "",
             printable(status.value("listen", "")), printable(status.value("state_dir", "")));
  std::vector<std::vector<Cell>> rows = {{{"ROLE", Tone::kDim},
                                          {"STATE", Tone::kDim},
                                          {"PID", Tone::kDim},
                                          {"SINCE", Tone::kDim},
                                          {"RESTARTS", Tone::kDim},
                                          {"RSS", Tone::kDim},
                                          {"LAST END", Tone::kDim}}};
  for (const Json& role : status.at("roles")) {
    const std::string state = role.value("state", "");
    rows.push_back({role.value("role", ""),
                    {state, state == "ready" ? Tone::kGood : Tone::kBad},
                    fmt::format("{}", role.value("pid", 0)),
                    human_duration(role.value("uptime_ms", 0ULL)),
                    fmt::format("{}", role.value("restarts", 0ULL)),
                    human_bytes(role.value("rss_bytes", 0ULL)),
                    {role.value("last_exit", ""), Tone::kDim}});
  }
  print_table(rows);
}

Result<int> run_status(const std::string& state_dir, const Common& common) {
  const Json status = TRY(ask(state_dir, "supervisor", "GET", "/status"));
  if (common.json) {
    fmt::print("{}\n", dump_json(status));
  } else {
    print_status(status);
  }
  return status.value("ready", false) ? 0 : 1;
}

}  // namespace

void add_status(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* status = add_state_command(
      app, common, exit_code, "status", "Show the roles of a running Pons",
      "Shows every role of the Pons that runs on the state directory: its state, process id, how "
      "long it has been in that\n"
      "state, how often it was restarted, its resident memory, and how its last process ended.",
      Prints::kData,
      [&common](const std::string& state_dir) { return run_status(state_dir, common); });
  status->footer("EXIT STATUS\n  0 when all roles are ready, 1 otherwise.");
}

}  // namespace pons::cli
