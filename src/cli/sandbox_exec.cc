#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "job_follower.h"
#include "pons/base/id.h"
#include "sandbox_options.h"
#include "sandbox_session.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kUsageError = 2;
constexpr Duration kDestroyTime = std::chrono::seconds(30);
// One-shot sandboxes end by themselves even when nobody is left to end them.
constexpr auto kLeftOverTime = std::chrono::minutes(10);
constexpr std::size_t kIdLetters = 12;

constexpr const char* kStatusSection =
    "EXIT STATUS\n"
    "  that of the command; 128 and the signal's number when a signal ended it; 124 when --timeout "
    "did; 137 when memory\n"
    "  ran out; 125 when Pons could not run it, it wrote too much, or the sandbox ended under it; "
    "2 "
    "wrong usage.";

struct Options {
  std::string name;  // of the sandbox, or of the template
  JobOptions job;
  SandboxOptions sandbox;
  bool detach = false;
};

Task<Result<int>> exec(Session& session, const Options& options, sandbox::JobSpec spec) {
  const bool input = spec.input_open && !options.detach;
  spec.input_open = input;
  CO_TRY(auto signals, watch_person());
  CO_TRY(auto job, co_await session.provider.execute(options.name, std::move(spec)));
  const std::string id = job->job_id();
  if (options.detach) {
    if (session.common.json) {
      print_json({{"job", id}});
    } else {
      fmt::print("{}\n", printable(id));
    }
    co_return 0;
  }
  co_return co_await follow_job(
      session, options.name, std::move(job), signals,
      {.input = input,
       .terminal = options.job.terminal,
       .if_left =
           fmt::format("left the job; it goes on: pons sandbox logs -f {} {}", options.name, id)});
}

Task<Result<int>> run_in(Session& session, std::string id, const Options& options,
                         sandbox::JobSpec spec, linux::SignalFd& signals) {
  const bool input = spec.input_open;
  CO_TRY(auto job, co_await session.provider.execute(id, std::move(spec)));
  co_return co_await follow_job(session, id, std::move(job), signals,
                                {.input = input,
                                 .terminal = options.job.terminal,
                                 .if_left = "the sandbox and the command in it are ended"});
}

Task<Result<int>> run_once(Session& session, const Options& options, sandbox::JobSpec spec) {
  sandbox::CreateRequest request{.id = "run-" + random_text(kIdLetters),
                                 .template_name = options.name};
  request.limits.idle_max = kLeftOverTime;
  CO_TRY_VOID(apply(options.sandbox, request));
  const std::string id = request.id;
  CO_TRY(auto signals, watch_person());
  CO_TRY(const auto info, co_await session.provider.create(std::move(request)));
  auto outcome = co_await run_in(session, id, options, std::move(spec), signals);
  const auto destroyed = co_await linux::within(session.loop, session.loop.now() + kDestroyTime,
                                                session.provider.destroy(id));
  if (!destroyed || !*destroyed)
    print_error(fmt::format("sandbox {} could not be ended; try `pons sandbox rm {}`", id, id));
  co_return outcome;
}

void run_with(const CLI::App& command, const Common& common, int& exit_code,
              const std::shared_ptr<Options>& options, auto work) {
  std::vector<std::string> words = command.remaining();
  if (!words.empty() && (words[0].starts_with('-') || !common.command.empty())) {
    print_error(fmt::format("{} is not understood here; the command follows `--`", words[0]));
    exit_code = kUsageError;
    return;
  }
  words.insert(words.end(), common.command.begin(), common.command.end());
  if (!are_understood(options->sandbox)) {
    exit_code = kUsageError;
    return;
  }
  auto spec = make_job(options->job, std::move(words));
  if (!spec) {
    print_error(spec.error().message);
    exit_code = kUsageError;
    return;
  }
  exit_code = run_session(
      common, [&](Session& s) { return work(s, *options, std::move(*spec)); }, kPonsFailed);
}

}  // namespace

void add_sandbox_exec(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("exec", "Run a command in a sandbox");
  auto options = std::make_shared<Options>();
  explain(*command,
          "pons sandbox exec SANDBOX [OPTIONS] -- COMMAND [ARGUMENT…]\n"
          "\n"
          "Runs a command and shows its standard output and error as they come, each where it "
          "belongs. Standard input is sent\n"
          "when it is a pipe or a file, or with -i. Ctrl-C sends SIGINT to the command; a second "
          "Ctrl-C leaves it running.\n"
          "With --json, each piece of output and the end is a line of JSON.");
  command->add_option("SANDBOX", options->name, "Its id")->required();
  add_job_options(*command, options->job);
  command->add_flag("-d,--detach", options->detach,
                    "Print the job's id and do not wait; `pons sandbox logs` shows its output");
  add_session_options(*command, common);
  command->prefix_command();
  command->footer(
      std::string("EXAMPLES\n"
                  "  pons sandbox exec work -- make -j4\n"
                  "  pons sandbox exec work -c 'ls | wc -l'\n"
                  "  tar c src | pons sandbox exec work -- tar x -C /home/user\n"
                  "  pons sandbox exec work --transaction -- ./migrate   undone if it fails\n"
                  "  pons sandbox exec work -t -i -- htop\n"
                  "\n") +
      kStatusSection);
  command->callback([&common, &exit_code, options, command] {
    run_with(*command, common, exit_code, options, exec);
  });
}

void add_sandbox_run(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command =
      group.add_subcommand("run", "Run one command in a sandbox made for it, then end it");
  auto options = std::make_shared<Options>();
  explain(
      *command,
      "pons sandbox run TEMPLATE [OPTIONS] -- COMMAND [ARGUMENT…]\n"
      "\n"
      "Makes a sandbox, runs the command in it as `pons sandbox exec` does, and ends the sandbox "
      "whatever happened.");
  command->add_option("TEMPLATE", options->name, "What is in it, such as host")->required();
  add_sandbox_options(*command, options->sandbox);
  command->remove_option(command->get_option("--env"));
  add_job_options(*command, options->job);
  add_session_options(*command, common);
  command->prefix_command();
  command->footer(
      std::string("EXAMPLES\n"
                  "  pons sandbox run host -- echo hello\n"
                  "  pons sandbox run host --memory 256M --timeout 10s -- python3 untrusted.py\n"
                  "  generate | pons sandbox run host -- sort > sorted\n"
                  "\n") +
      kStatusSection);
  command->callback([&common, &exit_code, options, command] {
    run_with(*command, common, exit_code, options, run_once);
  });
}

void add_sandbox_shell(CLI::App& group, Common& common, int& exit_code) {
  CLI::App* command = group.add_subcommand("shell", "Open an interactive shell in a sandbox");
  auto options = std::make_shared<Options>();
  explain(
      *command,
      "Opens a terminal in the sandbox, with bash where there is one and sh otherwise. Every key "
      "goes inside, the size of\n"
      "the window follows, and the exit status is the shell's.");
  command->add_option("SANDBOX", options->name, "Its id")->required();
  command->add_option("-u,--user", options->job.user, "User inside (default: the template's)")
      ->type_name("NAME");
  command->add_option("-w,--cwd", options->job.directory, "Working directory inside")
      ->type_name("DIR");
  command->add_option("-e,--env", options->job.environment, "A variable; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  add_config_options(*command, common);
  command->footer("EXAMPLES\n  pons sandbox shell work\n  pons sandbox shell work --user root");
  command->callback([&common, &exit_code, options, command] {
    options->job.terminal = options->job.interactive = true;
    options->job.shell_line = "[ -x /bin/bash ] && exec /bin/bash; exec /bin/sh";
    run_with(*command, common, exit_code, options, exec);
  });
}

}  // namespace pons::cli
