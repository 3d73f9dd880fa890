#include "command.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "agent_settings.h"
#include "file_words.h"
#include "help.h"
#include "model_settings.h"
#include "pons/base/text.h"
#include "pons/egress/policy.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"
#include "pons/linux/run_task.h"
#include "pons/linux/signals.h"
#include "pons/supervisor/supervisor.h"
#include "store_settings.h"
#include "telemetry_settings.h"
#include "terminal.h"

namespace pons::cli {

namespace {

constexpr int kUsageError = 2;
constexpr std::size_t kAnswerBytesMax = 16 * 1024 * 1024;

std::string find_config_file(const Common& common) {
  if (!common.config_file.empty()) return common.config_file;
  for (const char* candidate : {"pons.yaml", "/etc/pons/pons.yaml"})
    if (access(candidate, F_OK) == 0) return candidate;
  return {};
}

// What our own processes send with a refusal, or whatever came instead.
std::string refusal_text(const std::string& body) {
  const auto answer = parse_json(body);
  try {
    if (answer) return answer->at("error").at("message").get<std::string>();
  } catch (const Json::exception&) {
    // another shape
  }
  return body;
}

Task<Result<std::string>> converse(http::Client& client, http::ClientRequest request) {
  CO_TRY(auto response, co_await client.send(std::move(request)));
  CO_TRY(std::string body, co_await response.read_whole_body(kAnswerBytesMax));
  if (response.status() >= 400)
    co_return make_error(ErrorCode::kUnavailable, "ask Pons", refusal_text(body));
  co_return std::move(body);
}

// What is sent must be text: as JSON, bytes that are none would become others. Names of files here
// may have any.
bool are_texts(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_type_name() == kFile || option->get_type_name() == kDirectory) continue;
    for (const std::string& word : option->results()) {
      if (is_valid_utf8(word)) continue;
      print_error(fmt::format("{} is not UTF-8 text; nothing was done", option->get_name()));
      return false;
    }
  }
  return true;
}

}  // namespace

void add_config_options(CLI::App& app, Common& common) {
  app.add_option("--config", common.config_file,
                 "Configuration file (default: ./pons.yaml, then /etc/pons/pons.yaml, then "
                 "built-in values)")
      ->type_name(kFile);
  app.add_option("--state-dir", common.state_dir,
                 "Directory that holds Pons' state; overrides state_dir")
      ->type_name(kDirectory);
}

void add_json_option(CLI::App& app, Common& common) {
  app.add_flag("--json", common.json, "Print JSON for programs instead of text for people");
}

std::optional<config::LoadedConfig> load_config(const Common& common) {
  const auto print = [](const std::vector<config::ConfigIssue>& issues, std::string_view kind) {
    for (const auto& issue : issues) fmt::print(stderr, "{}{}\n", kind, issue.describe());
  };
  for (const std::string* text : {&common.state_dir, &common.listen}) {
    if (is_valid_utf8(*text)) continue;
    print_error("--state-dir and --listen must be UTF-8 text");
    return std::nullopt;
  }
  const std::string file = find_config_file(common);
  // Overrides go through the same checks as the file does.
  std::string overrides;
  if (!common.state_dir.empty()) {
    // On a command line a relative path means "from here".
    const auto path = std::filesystem::absolute(common.state_dir).lexically_normal();
    overrides += fmt::format("state_dir: {}\n", Json(path.string()).dump());
  }
  if (!common.listen.empty()) overrides += fmt::format("listen: {}\n", Json(common.listen).dump());
  auto loaded = file.empty() ? config::load_config_text("", "built-in defaults")
                             : config::load_config_file(file);
  if (!loaded) {
    print(loaded.error(), "");
    return std::nullopt;
  }
  auto overridden = config::load_config_text(overrides, "command line");
  if (!overridden) {
    print(overridden.error(), "");
    return std::nullopt;
  }
  if (!common.state_dir.empty()) loaded->config.state_dir = overridden->config.state_dir;
  if (!common.listen.empty()) loaded->config.listen = overridden->config.listen;
  if (file.empty()) loaded->file.clear();  // only messages need a name for what is no file
  if (const auto checked = check_environments(*loaded); !checked) {
    print_error(checked.error().message);
    return std::nullopt;
  }
  for (const auto check : {check_models, check_agents, check_telemetry, check_store})
    if (const auto checked = check(*loaded); !checked) {
      print_error(checked.error().message);
      return std::nullopt;
    }
  return std::move(*loaded);
}

Result<void> check_environments(const config::LoadedConfig& loaded) {
  const std::string& builds = loaded.config.packages.network;
  if (!builds.empty() && !loaded.config.environments.contains(builds))
    return make_error(
        ErrorCode::kInvalid, "check environments",
        fmt::format("{}: packages.network: \"{}\" is none of `environments`", loaded.file, builds));
  if (loaded.config.environments.empty()) return {};
  const auto packages = egress::read_package_hosts();
  for (const auto& [name, document] : loaded.config.environments)
    if (const auto compiled = egress::Policy::compile(document, 1, packages); !compiled)
      return make_error(
          ErrorCode::kInvalid, "check environments",
          fmt::format("{}: environments.{}: {}", loaded.file, name, compiled.error().message));
  return {};
}

Result<Json> ask(const std::string& state_dir, std::string_view process, std::string method,
                 std::string target, std::string body) {
  return parse_json(
      TRY(ask_text(state_dir, process, std::move(method), std::move(target), std::move(body))));
}

Result<std::string> ask_text(const std::string& state_dir, std::string_view process,
                             std::string method, std::string target, std::string body) {
  auto loop = TRY(linux::Loop::create());
  http::Client client(
      *loop, http::unix_connector(*loop, supervisor::control_socket_path(state_dir, process)),
      "pons", {.first_byte_time = std::chrono::seconds(15)});
  const auto answer = linux::run_to_end(*loop, converse(client, {.method = std::move(method),
                                                                 .target = std::move(target),
                                                                 .body = std::move(body)}));
  if (!answer && (answer.error().os_error == ENOENT || answer.error().os_error == ECONNREFUSED))
    return make_error(
        ErrorCode::kUnavailable, "ask Pons",
        fmt::format("Pons is not running on {}; start it with `pons up`, or name its --state-dir",
                    state_dir));
  if (!answer && answer.error().os_error == EACCES)
    return make_error(
        ErrorCode::kDenied, "ask Pons",
        fmt::format("{} belongs to another user; run this as the user who started Pons",
                    state_dir));
  return answer;
}

int run_with_state(const Common& common,
                   const std::function<Result<int>(const std::string& state_dir)>& work) {
  const auto loaded = load_config(common);
  if (!loaded) return 1;
  linux::ignore_sigpipe();
  const auto done = work(loaded->config.state_dir);
  if (done) return *done;
  print_error(done.error().message.empty() ? done.error().describe() : done.error().message);
  return 1;
}

CLI::App* add_state_command(CLI::App& group, Common& common, int& exit_code, const char* name,
                            const char* summary, const char* text, Prints prints,
                            std::function<Result<int>(const std::string& state_dir)> work) {
  CLI::App* command = group.add_subcommand(name, summary);
  explain(*command, text);
  add_config_options(*command, common);
  if (prints == Prints::kData) add_json_option(*command, common);
  command->callback([command, &common, &exit_code, work = std::move(work)] {
    exit_code = are_texts(*command) ? run_with_state(common, work) : kUsageError;
  });
  return command;
}

}  // namespace pons::cli
