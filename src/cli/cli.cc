#include "pons/cli/cli.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent_commands.h"
#include "command.h"
#include "help.h"
#include "migrate_command.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/base/version.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kUsageError = 2;

// A mistyped command gets the nearest one suggested; CLI11 would only call it unexpected.
bool explain_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  std::vector<std::string_view> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == argv[1]) return false;
    names.push_back(sub->get_name());
  }
  const auto nearest = nearest_match(argv[1], names);
  print_error(fmt::format(
      "there is no command \"{}\"; {}", argv[1],
      nearest ? fmt::format("did you mean \"{}\"?", *nearest) : "`pons --help` lists them"));
  return true;
}

// What follows `--` in a command that runs something is not ours to read. The words before it.
int split_off_command(int argc, char** argv, Common& common) {
  if (argc < 3 || std::string_view(argv[1]) != "sandbox") return argc;
  const std::string_view verb = argv[2];
  if (verb != "exec" && verb != "run") return argc;
  for (int i = 3; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    common.command.assign(argv + i + 1, argv + argc);
    return i;
  }
  return argc;
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app("a self-hosted platform for production AI agents", "pons");
  app.require_subcommand(1);
  app.formatter(manual_formatter());
  app.set_version_flag("--version", std::string(version()));
  app.footer(
      "Start with `pons up`; `pons COMMAND --help` explains a command.\n"
      "\n"
      "EXIT STATUS\n"
      "  0 done; 1 it did not work, or a promise does not hold; 2 wrong usage.");
  Common common;
  int exit_code = 0;
  add_up(app, common, exit_code);
  add_down(app, common, exit_code);
  add_reload(app, common, exit_code);
  add_status(app, common, exit_code);
  add_doctor(app, common, exit_code);
  add_run(app, common, exit_code);
  add_sessions(app, common, exit_code);
  add_replay(app, common, exit_code);
  add_agents(app, common, exit_code);
  add_environments(app, common, exit_code);
  add_deployments(app, common, exit_code);
  add_config(app, common, exit_code);
  add_template(app, common, exit_code);
  add_harness(app, common, exit_code);
  add_vault(app, common, exit_code);
  add_audit(app, common, exit_code);
  add_egress(app, common, exit_code);
  add_project(app, common, exit_code);
  add_key(app, common, exit_code);
  add_keys(app, common, exit_code);
  add_models(app, common, exit_code);
  add_usage(app, common, exit_code);
  add_metrics(app, common, exit_code);
  add_backup(app, common, exit_code);
  add_restore(app, common, exit_code);
  add_migrate(app, common, exit_code);
  add_version(app, common, exit_code);
  add_sandbox(app, common, exit_code);
  add_mcp(app, exit_code);
  add_mcp_pins(*app.get_subcommand("mcp"), common, exit_code);
  add_memory(app, common, exit_code);
  add_files(app, common, exit_code);
  add_completion(app, exit_code);

  if (explain_unknown_command(app, argc, argv)) return kUsageError;
  try {
    app.parse(split_off_command(argc, argv, common), argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  } catch (const Json::exception&) {
    // A role in an attacker's hands may answer the operator with any JSON.
    print_error("a process of Pons gave an answer of an unexpected form");
    return 1;
  }
  return exit_code;
}

}  // namespace pons::cli
