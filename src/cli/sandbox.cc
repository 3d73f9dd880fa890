#include <CLI/CLI.hpp>

#include "command.h"
#include "help.h"
#include "sandbox_session.h"

namespace pons::cli {

void add_sandbox(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* group = app.add_subcommand("sandbox", "Make, use and end sandboxes");
  group->require_subcommand(1);
  explain(*group,
          "A sandbox is a small Linux of its own: files, processes, users and limits that are "
          "nobody else's. It starts in\n"
          "about a millisecond, so make one per task and throw it away.");
  group->footer(
      "EXAMPLES\n"
      "  pons sandbox run host -- python3 -c 'print(6*7)'   one command in a sandbox of its own\n"
      "  pons sandbox create --id work                      one that stays\n"
      "  pons sandbox exec work -- make test\n"
      "  pons sandbox rm work");
  add_sandbox_run(*group, common, exit_code);
  add_sandbox_create(*group, common, exit_code);
  add_sandbox_ls(*group, common, exit_code);
  add_sandbox_exec(*group, common, exit_code);
  add_sandbox_shell(*group, common, exit_code);
  add_sandbox_cp(*group, common, exit_code);
  add_sandbox_logs(*group, common, exit_code);
  add_sandbox_checkpoints(*group, common, exit_code);
  add_sandbox_fork(*group, common, exit_code);
  add_sandbox_states(*group, common, exit_code);
  add_sandbox_top(*group, common, exit_code);
  add_sandbox_inspect(*group, common, exit_code);
}

}  // namespace pons::cli
