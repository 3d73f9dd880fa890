#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent_settings.h"
#include "command.h"
#include "help.h"
#include "model_settings.h"
#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/egress/package_hosts.h"
#include "pons/supervisor/supervisor.h"
#include "store_settings.h"
#include "telemetry_settings.h"
#include "terminal.h"

namespace pons::cli {

namespace {

int run_up(const Common& common) {
  auto loaded = load_config(common);
  if (!loaded) return 1;
  if (const auto checked = config::check_exposure(loaded->config); !checked) {
    print_error(checked.error().message);
    return 1;
  }
  LogSettings log = default_log_settings();
  log.level = loaded->config.log.level;
  log.process = "supervisor";
  if (loaded->config.log.format == config::LogFormatChoice::kHuman) log.format = LogFormat::kHuman;
  if (loaded->config.log.format == config::LogFormatChoice::kJson) log.format = LogFormat::kJson;
  configure_log(log);
  supervisor::ForRoles for_roles;
  for_roles.egress = {{"packages", dump_json(egress::to_json(egress::read_package_hosts()))}};
  add_provider_of_environment(loaded->config);
  for (const auto prepare : {prepare_models, prepare_agents, prepare_telemetry, prepare_store})
    if (const auto prepared = prepare(*loaded, for_roles); !prepared) {
      print_error(prepared.error().message);
      return 1;
    }
  for_roles.brain["package_registries"] = dump_json(egress::read_package_registries());
  if (auto ran = supervisor::run_supervisor(loaded->config, for_roles); !ran) {
    print_error(ran.error().describe());
    return 1;
  }
  return 0;
}

}  // namespace

void add_up(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* up = app.add_subcommand("up", "Start Pons in the foreground");
  explain(
      *up,
      "Starts Pons in the foreground: the supervisor and its six roles, each confined by the "
      "kernel to what it needs.\n"
      "Prints where it listens once all of them are ready. Ctrl-C, SIGTERM or `pons down` drain "
      "and stop it; asking\n"
      "twice stops it at once. Under systemd it reports readiness (Type=notify).");
  add_config_options(*up, common);
  up->add_option("--listen", common.listen,
                 "Address and port of the public listener; overrides listen")
      ->type_name("ADDRESS:PORT");
  up->footer(
      "EXAMPLES\n"
      "  pons up                                  with built-in values, or ./pons.yaml when there "
      "is one\n"
      "  pons up --listen 127.0.0.1:0             on any free port\n"
      "  pons up --state-dir ~/pons-state         without root, in a directory of your own\n"
      "\n"
      "FILES\n"
      "  STATE_DIR/admin.token                    the operator's token, made on the first start, "
      "mode 0600\n"
      "  STATE_DIR/run/PROCESS.sock               control sockets: curl --unix-socket … "
      "http://pons/healthz");
  up->callback([&] { exit_code = run_up(common); });
}

}  // namespace pons::cli
