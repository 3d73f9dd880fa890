#include "sandbox_session.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "pons/linux/run_task.h"
#include "pons/linux/signals.h"
#include "pons/linux/unix_socket.h"
#include "pons/sandbox/remote.h"
#include "pons/supervisor/supervisor.h"
#include "terminal.h"

namespace pons::cli {

namespace {

std::string advice_for(const Error& error, const std::string& state_dir) {
  // Asked anew: an error of the same kind may be about a local file.
  const auto reached = linux::connect_unix(supervisor::control_socket_path(state_dir, "warden"));
  const int refusal = reached ? 0 : reached.error().os_error;
  if (refusal == ENOENT || refusal == ECONNREFUSED)
    return fmt::format(
        "Pons is not running on {}; start it with `pons up`, or name its --state-dir", state_dir);
  if (refusal == EACCES)
    return fmt::format("{} belongs to another user; run this as the user who started Pons",
                       state_dir);
  if (error.os_error != 0) return error.describe();
  const std::string text = error.message.empty() ? error.describe() : error.message;
  if (error.code == ErrorCode::kNotFound)
    return text + "\n`pons sandbox ls` shows which sandboxes there are";
  if (error.code == ErrorCode::kUnavailable)
    return text + "\n`pons status` shows whether the warden is well";
  return text;
}

}  // namespace

int run_session(const Common& common, const Work& work, int failure) {
  const auto loaded = load_config(common);
  if (!loaded) return failure;
  const std::string& state_dir = loaded->config.state_dir;
  linux::ignore_sigpipe();
  auto loop = linux::Loop::create();
  if (!loop) {
    print_error(loop.error().describe());
    return failure;
  }
  const Result<int> outcome = [&] {
    sandbox::RemoteProvider provider(
        **loop, http::unix_connector(**loop, supervisor::control_socket_path(state_dir, "warden")));
    Session session{.loop = **loop, .provider = provider, .common = common};
    return linux::run_to_end(**loop, work(session));
  }();
  if (outcome) return *outcome;
  print_error(advice_for(outcome.error(), state_dir));
  return failure;
}

void add_session_options(CLI::App& app, Common& common) {
  add_config_options(app, common);
  add_json_option(app, common);
}

void print_json(const Json& value) {
  fmt::print("{}\n", dump_json(value));
}

}  // namespace pons::cli
