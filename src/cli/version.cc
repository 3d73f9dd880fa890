#include <sys/utsname.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "pons/base/version.h"

namespace pons::cli {

void add_version(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* command = app.add_subcommand("version", "Print the version");
  add_json_option(*command, common);
  command->callback([&] {
    utsname host{};
    uname(&host);
    if (common.json) {
      fmt::print(
          "{}\n",
          dump_json({{"version", version()}, {"kernel", host.release}, {"machine", host.machine}}));
    } else {
      fmt::print("pons {} on Linux {} {}\n", version(), host.release, host.machine);
    }
    exit_code = 0;
  });
}

}  // namespace pons::cli
