#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "help.h"
#include "pons/linux/fd.h"
#include "terminal.h"

namespace pons::cli {

namespace {

// Pons holds the lock of its state directory until the last of its processes has ended.
bool wait_until_unlocked(const std::string& state_dir, int seconds) {
  constexpr useconds_t kStepMicroseconds = 20'000;
  const auto lock = linux::open_file(state_dir + "/run/pons.lock", O_RDWR);
  if (!lock) return true;
  for (int i = 0; i < seconds * 50; ++i) {
    if (flock(lock->get(), LOCK_EX | LOCK_NB) == 0) return true;
    usleep(kStepMicroseconds);
  }
  return false;
}

int run_down(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded) return 1;
  const config::Config& config = loaded->config;
  if (auto asked = ask(config.state_dir, "supervisor", "POST", "/down"); !asked) {
    print_error(asked.error().message);
    return 1;
  }
  constexpr int kGraceSeconds = 5;
  if (!wait_until_unlocked(config.state_dir,
                           static_cast<int>(config.supervisor.drain_seconds) + kGraceSeconds)) {
    print_error(
        "Pons was told to stop and still runs; `pons status` shows which role does not end");
    return 1;
  }
  if (common.json) {
    fmt::print("{{\"stopped\":true}}\n");
  } else {
    fmt::print("Pons has stopped.\n");
  }
  return 0;
}

}  // namespace

void add_down(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* down = app.add_subcommand("down", "Stop a running Pons");
  explain(
      *down,
      "Tells the Pons that runs on the state directory to drain and stop, and waits until it has. "
      "Requests that are\n"
      "being answered are finished; what does not end within supervisor.drain_seconds is killed.");
  add_config_options(*down, common);
  add_json_option(*down, common);
  down->footer("EXIT STATUS\n  0 when it has stopped, 1 when there was none or it does not end.");
  down->callback([&] { exit_code = run_down(common); });
}

}  // namespace pons::cli
