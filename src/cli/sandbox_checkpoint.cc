#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/sandbox/wire.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Options {
  std::string sandbox;
  std::string name;
};

Task<Result<int>> checkpoint(Session& session, const Options& options) {
  CO_TRY(const std::string name,
         co_await session.provider.checkpoint(options.sandbox, options.name));
  if (session.common.json) {
    print_json({{"name", name}});
  } else {
    fmt::print("{}\n", printable(name));
  }
  co_return 0;
}

Task<Result<int>> rollback(Session& session, const Options& options) {
  CO_TRY_VOID(co_await session.provider.rollback(options.sandbox, options.name));
  if (session.common.json) print_json({{"rolled_back", options.name}});
  co_return 0;
}

Task<Result<int>> commit(Session& session, const Options& options) {
  CO_TRY_VOID(co_await session.provider.commit(options.sandbox, options.name));
  if (session.common.json) print_json({{"committed", options.name}});
  co_return 0;
}

Task<Result<int>> snapshot(Session& session, const Options& options) {
  CO_TRY(const auto info, co_await session.provider.snapshot(options.sandbox, options.name));
  if (session.common.json) print_json(sandbox::to_json(info));
  co_return 0;
}

struct Texts {
  const char* name;
  const char* summary;
  const char* description;
  const char* footer;
};

CLI::Option* add(CLI::App& group, Common& common, int& exit_code, const Texts& texts, auto work) {
  CLI::App* command = group.add_subcommand(texts.name, texts.summary);
  auto options = std::make_shared<Options>();
  explain(*command, texts.description);
  command->add_option("SANDBOX", options->sandbox, "Its id")->required();
  CLI::Option* name = command->add_option("CHECKPOINT", options->name, "The checkpoint's name");
  add_session_options(*command, common);
  command->footer(texts.footer);
  command->callback([&common, &exit_code, options, work] {
    exit_code = run_session(common, [options, work](Session& s) { return work(s, *options); });
  });
  return name;
}

}  // namespace

void add_sandbox_checkpoints(CLI::App& group, Common& common, int& exit_code) {
  add(group, common, exit_code,
      {.name = "checkpoint",
       .summary = "Remember a sandbox's files as they are now",
       .description =
           "Remembers the files as they are now and prints the checkpoint's name; without "
           "CHECKPOINT one is made up. Refused with\n"
           "busy_writers, and nothing changed, while a process has a file open for writing.",
       .footer = "EXAMPLES\n  pons sandbox checkpoint work before-upgrade"},
      checkpoint);
  add(group, common, exit_code,
      {.name = "rollback",
       .summary = "Put a sandbox's files back to a checkpoint",
       .description =
           "Puts all files back to what they were at the checkpoint. It stays, as do later ones: "
           "one can go back and forth.\n"
           "See `pons sandbox inspect` for the names.",
       .footer = "EXAMPLES\n  pons sandbox rollback work before-upgrade"},
      rollback)
      ->required();
  add(group, common, exit_code,
      {.name = "commit",
       .summary = "Keep what happened since a checkpoint and forget it",
       .description = "Keeps the files as they are and forgets the checkpoint.",
       .footer = "EXAMPLES\n  pons sandbox commit work before-upgrade"},
      commit)
      ->required();

  CLI::App* command =
      group.add_subcommand("snapshot", "Make a template of a sandbox's files as they are now");
  auto options = std::make_shared<Options>();
  explain(*command,
          "The sandbox goes on. Its processes are no part of the template, its files are: leave no "
          "secrets in them.");
  command->add_option("SANDBOX", options->sandbox, "Its id")->required();
  command->add_option("TEMPLATE", options->name, "Name of the new template")->required();
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox snapshot work with-tools\n"
      "  pons sandbox run with-tools -- make test");
  command->callback([&common, &exit_code, options] {
    exit_code = run_session(common, [options](Session& s) { return snapshot(s, *options); });
  });
}

}  // namespace pons::cli
