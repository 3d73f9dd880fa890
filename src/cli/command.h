#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "pons/base/json.h"
#include "pons/base/result.h"
#include "pons/config/config.h"

namespace CLI {
class App;
}

namespace pons::cli {

// What the commands share: where the configuration is and how to answer.
struct Common {
  std::string config_file;  // empty: ./pons.yaml, /etc/pons/pons.yaml, or defaults
  std::string state_dir;    // overrides the configuration
  std::string listen;       // overrides the configuration
  bool json = false;
  std::vector<std::string> command;  // the words behind `--`
};

// Adds --config and --state-dir, and --json where the command prints data.
void add_config_options(CLI::App& app, Common& common);
void add_json_option(CLI::App& app, Common& common);

// The configuration as the options ask for it. Prints every problem and returns nothing when it
// cannot be used.
std::optional<config::LoadedConfig> load_config(const Common& common);

// The error when an environment of the configuration is not a policy that can be kept.
Result<void> check_environments(const config::LoadedConfig& loaded);

// Asks a process of a running Pons over its control socket. kUnavailable, with advice, when it is
// not running.
Result<Json> ask(const std::string& state_dir, std::string_view process, std::string method,
                 std::string target, std::string body = {});
// The same for an answer that is not JSON.
Result<std::string> ask_text(const std::string& state_dir, std::string_view process,
                             std::string method, std::string target, std::string body = {});

// Runs what a command does with the state directory. Prints its error; the exit code.
int run_with_state(const Common& common,
                   const std::function<Result<int>(const std::string& state_dir)>& work);

// A command of a group that works on the state directory, with the options for that and, where it
// prints data, --json.
enum class Prints : std::uint8_t { kText, kData };
CLI::App* add_state_command(CLI::App& group, Common& common, int& exit_code, const char* name,
                            const char* summary, const char* text, Prints prints,
                            std::function<Result<int>(const std::string& state_dir)> work);

// Tells how a session's log differs from what this program would do; `through` names a template on
// which its commands are run again, and is empty otherwise.
Result<int> replay_session(const std::string& state_dir, const Common& common,
                           const std::string& project, const std::string& id,
                           const std::string& through);

// Each registers one command and, when it was chosen, sets `exit_code` by running it.
void add_up(CLI::App& app, Common& common, int& exit_code);
void add_down(CLI::App& app, Common& common, int& exit_code);
void add_reload(CLI::App& app, Common& common, int& exit_code);
void add_status(CLI::App& app, Common& common, int& exit_code);
void add_doctor(CLI::App& app, Common& common, int& exit_code);
void add_config(CLI::App& app, Common& common, int& exit_code);
void add_template(CLI::App& app, Common& common, int& exit_code);
void add_harness(CLI::App& app, Common& common, int& exit_code);
void add_vault(CLI::App& app, Common& common, int& exit_code);
void add_audit(CLI::App& app, Common& common, int& exit_code);
void add_egress(CLI::App& app, Common& common, int& exit_code);
void add_project(CLI::App& app, Common& common, int& exit_code);
void add_key(CLI::App& app, Common& common, int& exit_code);
void add_keys(CLI::App& app, Common& common, int& exit_code);
void add_usage(CLI::App& app, Common& common, int& exit_code);
void add_models(CLI::App& app, Common& common, int& exit_code);
void add_metrics(CLI::App& app, Common& common, int& exit_code);
void add_run(CLI::App& app, Common& common, int& exit_code);
void add_sessions(CLI::App& app, Common& common, int& exit_code);
void add_replay(CLI::App& app, Common& common, int& exit_code);
void add_agents(CLI::App& app, Common& common, int& exit_code);
void add_environments(CLI::App& app, Common& common, int& exit_code);
void add_deployments(CLI::App& app, Common& common, int& exit_code);
void add_backup(CLI::App& app, Common& common, int& exit_code);
void add_restore(CLI::App& app, Common& common, int& exit_code);
void add_version(CLI::App& app, Common& common, int& exit_code);
void add_sandbox(CLI::App& app, Common& common, int& exit_code);
void add_mcp(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);

}  // namespace pons::cli
