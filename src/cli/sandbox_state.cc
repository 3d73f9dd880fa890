#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/sandbox/wire.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

using Ids = std::vector<std::string>;

Task<Result<int>> pause(Session& session, const Ids& ids) {
  for (const std::string& id : ids) {
    CO_TRY(const auto info, co_await session.provider.pause(id));
    if (session.common.json) print_json(sandbox::to_json(info));
  }
  co_return 0;
}

Task<Result<int>> resume(Session& session, const Ids& ids) {
  for (const std::string& id : ids) {
    CO_TRY(const auto info, co_await session.provider.resume(id));
    if (session.common.json) print_json(sandbox::to_json(info));
  }
  co_return 0;
}

Task<Result<int>> remove(Session& session, const Ids& ids, bool all) {
  Ids doomed = ids;
  if (all) {
    CO_TRY(const auto sandboxes, co_await session.provider.list());
    for (const auto& info : sandboxes) doomed.push_back(info.id);
  }
  for (const std::string& id : doomed) CO_TRY_VOID(co_await session.provider.destroy(id));
  if (session.common.json) print_json({{"removed", doomed}});
  co_return 0;
}

CLI::App* add(CLI::App& group, Common& common, const char* name, const char* summary,
              const std::shared_ptr<Ids>& ids) {
  CLI::App* command = group.add_subcommand(name, summary);
  command->add_option("SANDBOX", *ids, "One or more ids");
  add_session_options(*command, common);
  return command;
}

}  // namespace

void add_sandbox_states(CLI::App& group, Common& common, int& exit_code) {
  auto ids = std::make_shared<Ids>();
  CLI::App* pause_command = add(group, common, "pause",
                                "Freeze a sandbox: it keeps all it has and uses no processor", ids);
  pause_command->get_option("SANDBOX")->required();
  pause_command->footer("EXAMPLES\n  pons sandbox pause work");
  pause_command->callback([&common, &exit_code, ids] {
    exit_code = run_session(common, [ids](Session& s) { return pause(s, *ids); });
  });

  CLI::App* resume_command =
      add(group, common, "resume", "Let a paused sandbox go on where it was", ids);
  resume_command->get_option("SANDBOX")->required();
  resume_command->footer("EXAMPLES\n  pons sandbox resume work");
  resume_command->callback([&common, &exit_code, ids] {
    exit_code = run_session(common, [ids](Session& s) { return resume(s, *ids); });
  });

  auto all = std::make_shared<bool>(false);
  CLI::App* remove_command = add(group, common, "rm", "End sandboxes and forget their files", ids);
  explain(
      *remove_command,
      "Ends the sandboxes with every process in them, and forgets their files. One that is gone "
      "already is no error.");
  remove_command->add_flag("--all", *all, "Every sandbox there is");
  remove_command->footer(
      "EXAMPLES\n"
      "  pons sandbox rm work try-1\n"
      "  pons sandbox rm --all");
  remove_command->callback([&common, &exit_code, ids, all] {
    if (ids->empty() != *all) {
      constexpr int kUsageError = 2;
      print_error("name the sandboxes to end, or say --all");
      exit_code = kUsageError;
      return;
    }
    exit_code = run_session(common, [ids, all](Session& s) { return remove(s, *ids, *all); });
  });
}

}  // namespace pons::cli
