#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "command.h"
#include "help.h"
#include "host_report.h"
#include "leaks.h"
#include "pons/linux/child.h"
#include "pons/roles/profile.h"
#include "terminal.h"

namespace pons::cli {

namespace {

// Asks every role of the Pons on `state_dir` to try what it must not be able to do.
Result<Json> test_roles(const std::string& state_dir) {
  Json reports = Json::array();
  for (const roles::Profile& profile : roles::profiles()) {
    // The spawner speaks to the warden only.
    const bool spawner = profile.role == roles::Role::kSpawner;
    reports.push_back(TRY(ask(state_dir, spawner ? "warden" : profile.name, "POST",
                              spawner ? "/spawner/selftest" : "/selftest")));
  }
  return reports;
}

// A Pons that lives only for the examination, on a state directory of its own. Stays where it was
// made: its destructor ends the process and removes the directory, which must happen once.
class TrialInstance {
 public:
  // With the configuration that `pons up` would use here, but for where it keeps and listens.
  static Result<std::unique_ptr<TrialInstance>> start(const std::string& config_file) {
    char pattern[] = "/tmp/pons-doctor-XXXXXX";
    if (mkdtemp(pattern) == nullptr) return os_error("create trial state directory");
    std::unique_ptr<TrialInstance> trial(new TrialInstance(pattern));
    linux::ChildOptions options{
        .argv = {"pons", "up", "--state-dir", trial->state_dir_, "--listen", "127.0.0.1:0"}};
    if (!config_file.empty()) options.argv.insert(options.argv.end(), {"--config", config_file});
    // The configuration may name variables; the service manager hears of the real Pons only.
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (!std::string_view(*entry).starts_with("NOTIFY_SOCKET="))
        options.environment.emplace_back(*entry);
    options.descriptors = {{STDERR_FILENO, STDERR_FILENO}};
    trial->process_.emplace(TRY(linux::ChildProcess::spawn("/proc/self/exe", options)));
    TRY_VOID(trial->wait_until_ready());
    return trial;
  }
  TrialInstance(const TrialInstance&) = delete;
  TrialInstance& operator=(const TrialInstance&) = delete;
  ~TrialInstance() {
    if (process_) {
      (void)process_->send_signal(SIGTERM);
      process_->wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(12));
      process_.reset();
    }
    std::error_code ignored;
    std::filesystem::remove_all(state_dir_, ignored);
  }
  const std::string& state_dir() const { return state_dir_; }

 private:
  explicit TrialInstance(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  Result<void> wait_until_ready() {
    constexpr int kTries = 1500;
    constexpr useconds_t kStepMicroseconds = 10'000;
    for (int i = 0; i < kTries; ++i) {
      if (auto ended = process_->try_wait())
        return make_error(ErrorCode::kUnavailable, "start a trial Pons",
                          "it ended: " + ended->describe());
      const auto status = ask(state_dir_, "supervisor", "GET", "/status");
      if (status && status->value("ready", false)) return {};
      usleep(kStepMicroseconds);
    }
    return make_error(ErrorCode::kTimeout, "start a trial Pons", "it did not get ready");
  }

  std::string state_dir_;
  std::optional<linux::ChildProcess> process_;
};

Result<Json> examine_roles(const config::LoadedConfig& loaded, bool& running) {
  const std::string& state_dir = loaded.config.state_dir;
  running = ask(state_dir, "supervisor", "GET", "/status").has_value();
  if (running) return test_roles(state_dir);
  const auto trial = TRY(TrialInstance::start(loaded.file));
  return test_roles(trial->state_dir());
}

void print_roles(const Json& reports) {
  for (const Json& report : reports) {
    const bool holds = report.value("holds", false);
    fmt::print("\n{}  {}\n", paint(report.value("role", ""), Tone::kStrong),
               paint(holds ? "confined" : "NOT CONFINED", holds ? Tone::kGood : Tone::kBad));
    std::vector<std::vector<Cell>> rows;
    for (const Json& attempt : report.at("attempts")) {
      const bool good = attempt.value("holds", false);
      rows.push_back({{good ? "  ok" : "  FAIL", good ? Tone::kGood : Tone::kBad},
                      attempt.value("promise", ""),
                      attempt.value("name", ""),
                      {attempt.value("answer", ""), Tone::kDim}});
    }
    print_table(rows);
  }
}

int run_doctor(const Common& common) {
  const auto loaded = load_config(common);
  if (!loaded) return 1;
  const HostReport host = examine_host();
  bool running = false;
  const auto reports = examine_roles(*loaded, running);
  const bool confined = reports && std::ranges::all_of(*reports, [](const Json& report) {
                          return report.value("holds", false);
                        });
  const bool healthy = confined && host.sufficient;
  if (common.json) {
    fmt::print("{}\n", dump_json({{"healthy", healthy},
                                  {"examined", running ? "the running Pons" : "a trial Pons"},
                                  {"host", to_json(host)},
                                  {"roles", reports ? *reports : Json::array()},
                                  {"error", reports ? Json() : Json(reports.error().describe())}}));
    return healthy ? 0 : 1;
  }
  print_host(host);
  if (!reports) {
    print_error(reports.error().describe());
    return 1;
  }
  fmt::print("\nEach role of {} tried what it must not be able to do, and the kernel answered:\n",
             running ? "the running Pons" : "a trial Pons");
  print_roles(*reports);
  fmt::print("\n{}\n", healthy ? paint("Every promise holds.", Tone::kGood)
                               : paint("Some promises do not hold on this host: see FAIL above.",
                                       Tone::kBad));
  return healthy ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Common& common, int& exit_code) {
  CLI::App* doctor =
      app.add_subcommand("doctor", "Prove that the roles are confined, and report on the host");
  explain(*doctor,
          "Lets every role try, from inside its own process, each thing it must not be able to do "
          "(start a program, open a\n"
          "socket, read another role's files, …) and prints what the kernel answered. Examines the "
          "running Pons, or a\n"
          "trial one when none runs. Also reports what this host offers, what is missing, and what "
          "that costs.");
  add_config_options(*doctor, common);
  add_json_option(*doctor, common);
  auto leaks = std::make_shared<bool>(false);
  doctor->add_flag("--leaks", *leaks,
                   "Instead, name what is left of sandboxes that Pons does not know; needs root");
  doctor->footer("EXIT STATUS\n  0 when every promise holds, or nothing is left; 1 otherwise.");
  doctor->callback([&common, &exit_code, leaks] {
    exit_code = *leaks ? run_leaks(common) : run_doctor(common);
  });
}

}  // namespace pons::cli
