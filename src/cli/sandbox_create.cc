#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/sandbox/wire.h"
#include "sandbox_options.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kUsageError = 2;

struct Options {
  std::string name;  // of the template, or of the sandbox to fork
  SandboxOptions sandbox;
};

void print_made(const Session& session, const sandbox::SandboxInfo& info) {
  if (session.common.json) return print_json(sandbox::to_json(info));
  fmt::print("{}\n", printable(info.id));
}

Task<Result<int>> create(Session& session, const Options& options) {
  sandbox::CreateRequest request{.template_name = options.name};
  CO_TRY_VOID(apply(options.sandbox, request));
  CO_TRY(const auto info, co_await session.provider.create(std::move(request)));
  print_made(session, info);
  co_return 0;
}

Task<Result<int>> fork(Session& session, const Options& options) {
  CO_TRY(const auto original, co_await session.provider.inspect(options.name));
  sandbox::CreateRequest request{.template_name = original.template_name,
                                 .limits = original.limits};
  CO_TRY_VOID(apply(options.sandbox, request));
  CO_TRY(const auto info, co_await session.provider.fork(options.name, std::move(request)));
  print_made(session, info);
  co_return 0;
}

}  // namespace

void add_sandbox_create(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("create", "Make a sandbox and print its id");
  auto options = std::make_shared<Options>();
  options->name = "host";
  explain(
      *command,
      "Makes a sandbox from a template and prints its id. It stays until `pons sandbox rm`, its "
      "idle time or its lifetime\n"
      "ends it. The same --id again finds the sandbox that is there.");
  command->add_option("TEMPLATE", options->name, "What is in it (default: host)");
  add_sandbox_options(*command, options->sandbox);
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox create                                        this host's programs, 512 MiB\n"
      "  pons sandbox create debian --id build --memory 2G --cpu 200\n"
      "  pons sandbox create --idle 10m --lifetime 2h --env LANG=C.UTF-8");
  command->callback([&common, &exit_code, options] {
    exit_code = are_understood(options->sandbox)
                    ? run_session(common, [options](Session& s) { return create(s, *options); })
                    : kUsageError;
  });
}

void add_sandbox_fork(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("fork", "Make a sandbox with the files of another one");
  auto options = std::make_shared<Options>();
  explain(*command,
          "Makes a new sandbox whose files are those of ID as they are now, and prints its id. "
          "Processes are not copied.\n"
          "Limits are those of ID unless they are given.");
  command->add_option("SANDBOX", options->name, "The sandbox to fork")->required();
  add_sandbox_options(*command, options->sandbox);
  add_session_options(*command, common);
  command->footer(
      "EXAMPLES\n"
      "  pons sandbox fork work --id try-1    try something without touching work");
  command->callback([&common, &exit_code, options] {
    exit_code = are_understood(options->sandbox)
                    ? run_session(common, [options](Session& s) { return fork(s, *options); })
                    : kUsageError;
  });
}

}  // namespace pons::cli
