#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "help.h"
#include "terminal.h"

namespace pons::cli {

namespace {

int run_check(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded) {
    if (common.json) fmt::print("{{\"valid\":false}}\n");
    return 1;
  }
  if (const auto checked = config::check_exposure(loaded->config); !checked) {
    print_error(checked.error().message);
    if (common.json) fmt::print("{{\"valid\":false}}\n");
    return 1;
  }
  const Json effective = config::config_to_json(loaded->config);
  if (common.json) {
    fmt::print("{}\n", dump_json({{"valid", true}, {"file", loaded->file}, {"config", effective}}));
  } else {
    fmt::print("{}\n", loaded->file.empty()
                           ? "no configuration file: the built-in values are in force"
                           : loaded->file + " is valid; in force are:");
    fmt::print("{}\n", effective.dump(2));
  }
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("config", "Check and describe the configuration");
  group->require_subcommand(1);

  CLI::App* check =
      group->add_subcommand("check", "Check the configuration file and print what is in force");
  explain(*check,
          "Reads the configuration as `pons up` would. Every problem is named with file, line and "
          "column, and with what to do\n"
          "about it; if there is none, all values in force are printed, defaults included.");
  add_config_options(*check, common);
  add_json_option(*check, common);
  check->footer("EXIT STATUS\n  0 when it is valid, 1 otherwise.");
  check->callback([&] { exit_code = run_check(common); });

  CLI::App* schema =
      group->add_subcommand("schema", "Print the JSON Schema of pons.yaml, for editors");
  schema->callback([&] {
    fmt::print("{}", config::config_json_schema());
    exit_code = 0;
  });

  CLI::App* reference =
      group->add_subcommand("reference", "Print the reference of all fields, as Markdown");
  reference->callback([&] {
    fmt::print("{}", config::config_reference_markdown());
    exit_code = 0;
  });
}

}  // namespace pons::cli
