#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "pons/base/secret.h"
#include "pons/base/text.h"
#include "sandbox_options.h"
#include "secret_input.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string name;
  std::string preset;
  std::vector<std::string> bindings;
  std::string grace;
  bool no_scrub = false;
};

// In a path these are themselves; whatever else a person types is answered here and not by a role.
Result<std::string> path_of(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || name.size() > 128 || !std::ranges::all_of(name, allowed))
    return make_error(ErrorCode::kInvalid, "read name",
                      "a credential has the name of an environment variable, such as GITHUB_TOKEN");
  return "/vault/" + name;
}

Result<Json> send_value(const std::string& state_dir, std::string method, std::string target,
                        Json request, std::string_view prompt) {
  const Secret value = TRY(read_secret(prompt));
  if (!is_valid_utf8(value.reveal()))
    return make_error(ErrorCode::kInvalid, "read secret", "the value is not text");
  request["value"] = value.reveal();
  return ask(state_dir, "egress", std::move(method), std::move(target), dump_json(request));
}

std::string hosts_of(const Json& credential) {
  std::string hosts;
  std::string last;
  for (const Json& binding : credential.at("bindings")) {
    const auto host = binding.at("host").get<std::string>();
    if (host == last) continue;
    hosts += (hosts.empty() ? "" : " ") + host;
    last = host;
  }
  return hosts;
}

void print_result(const Common& common, const Json& credential, std::string_view done) {
  if (common.json)
    fmt::print("{}\n", dump_json(credential));
  else
    fmt::print("{} {}: {} ({} characters), for {}\n", done,
               printable(credential.at("name").get<std::string>()),
               printable(credential.at("redacted").get<std::string>()),
               credential.at("length").get<std::uint64_t>(), printable(hosts_of(credential)));
}

// What pons.yaml says of it: one host, and every usual form of an Authorization field.
Result<std::vector<std::string>> configured_bindings(const Common& common,
                                                     const std::string& name) {
  const auto loaded = load_config(common);
  const config::CredentialConfig* found = nullptr;
  if (loaded)
    for (const auto& [key, credential] : loaded->config.credentials)
      if (key == name) found = &credential;
  if (found == nullptr)
    return make_error(ErrorCode::kInvalid, "set credential",
                      "say where it may be used: --preset NAME, --bind 'host=…', or "
                      "credentials in pons.yaml");
  std::vector<std::string> bindings;
  for (const char* format : {"Bearer {}", "token {}", "Basic *:{}", "{}"})
    bindings.push_back(fmt::format("host={},format={}", found->allowed_host, format));
  return bindings;
}

Result<int> set(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string target = TRY(path_of(words.name));
  if (!words.preset.empty() && !words.bindings.empty())
    return make_error(ErrorCode::kInvalid, "set credential", "give --preset or --bind, not both");
  const auto bindings = words.preset.empty() && words.bindings.empty()
                            ? TRY(configured_bindings(common, words.name))
                            : words.bindings;
  Json request = {{"scrub", !words.no_scrub}};
  if (words.preset.empty())
    request["bindings"] = bindings;
  else
    request["preset"] = words.preset;
  const Json credential = TRY(send_value(state_dir, "PUT", target, std::move(request),
                                         fmt::format("Value of {}: ", words.name)));
  print_result(common, credential, "set");
  return 0;
}

Result<int> rotate(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string target = TRY(path_of(words.name)) + "/rotate";
  Json request = Json::object();
  if (!words.grace.empty()) {
    const auto grace = parse_duration(words.grace);
    if (!grace)
      return make_error(ErrorCode::kInvalid, "read --grace", "--grace is a time such as 30m or 2h");
    request["grace_seconds"] = grace->count() / 1000;
  }
  const Json credential = TRY(send_value(state_dir, "POST", target, std::move(request),
                                         fmt::format("New value of {}: ", words.name)));
  print_result(common, credential, "rotated");
  return 0;
}

Result<int> list(const std::string& state_dir, const Common& common, const Words&) {
  const Json answer = TRY(ask(state_dir, "egress", "GET", "/vault"));
  const Json& damaged = answer.at("damaged");
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return damaged.empty() ? 0 : 1;
  }
  std::vector<std::vector<Cell>> rows = {{{"NAME", Tone::kDim},
                                          {"VALUE", Tone::kDim},
                                          {"HOSTS", Tone::kDim},
                                          {"ROTATED", Tone::kDim},
                                          {"SCRUB", Tone::kDim}}};
  for (const Json& credential : answer.at("credentials"))
    rows.push_back({credential.at("name").get<std::string>(),
                    {credential.at("redacted").get<std::string>(), Tone::kDim},
                    hosts_of(credential),
                    age_of(credential.at("rotated_unix_ms").get<std::int64_t>()),
                    credential.at("scrub").get<bool>() ? "on" : "off"});
  print_table(rows);
  for (const Json& bad : damaged)
    print_error(fmt::format("{} cannot be used: {}: {}", bad.at("name").get<std::string>(),
                            bad.at("file").get<std::string>(),
                            bad.at("reason").get<std::string>()));
  return damaged.empty() ? 0 : 1;
}

template <class T>
std::string joined(const Json& binding, const char* key) {
  const auto values = binding.value(key, std::vector<T>());
  return values.empty() ? "any" : fmt::format("{}", fmt::join(values, " "));
}

Result<int> show(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string target = TRY(path_of(words.name));
  const Json credential = TRY(ask(state_dir, "egress", "GET", target));
  if (common.json) {
    fmt::print("{}\n", dump_json(credential));
    return 0;
  }
  fmt::print(
      "{}: {} ({} characters), set {} ago, rotated {} ago, {}\n\n",
      printable(credential.at("name").get<std::string>()),
      printable(credential.at("redacted").get<std::string>()),
      credential.at("length").get<std::uint64_t>(),
      age_of(credential.at("created_unix_ms").get<std::int64_t>()),
      age_of(credential.at("rotated_unix_ms").get<std::int64_t>()),
      credential.at("scrub").get<bool>() ? "scrubbed from answers" : "not scrubbed from answers");
  std::vector<std::vector<Cell>> rows = {{{"HOST", Tone::kDim},
                                          {"PORTS", Tone::kDim},
                                          {"METHODS", Tone::kDim},
                                          {"PATHS", Tone::kDim},
                                          {"POSITION", Tone::kDim},
                                          {"FORMAT", Tone::kDim}}};
  for (const Json& binding : credential.at("bindings"))
    rows.push_back(
        {binding.at("host").get<std::string>(), joined<std::uint16_t>(binding, "ports"),
         joined<std::string>(binding, "methods"), joined<std::string>(binding, "paths"),
         fmt::format("{} {}", binding.at("position").get<std::string>(), binding.value("name", "")),
         binding.at("format").get<std::string>()});
  print_table(rows);
  return 0;
}

Result<int> remove(const std::string& state_dir, const Common& common, const Words& words) {
  const std::string target = TRY(path_of(words.name));
  const Json answer = TRY(ask(state_dir, "egress", "DELETE", target));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("removed {}\n", words.name);
  return 0;
}

}  // namespace

void add_vault(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "vault",
                                "Keep credentials that sandboxes use unseen");
  Words& words = commands.words();
  const auto named = [&](CLI::App* command) {
    command->add_option("name", words.name, "Name: the environment variable in sandboxes")
        ->required();
    return command;
  };

  CLI::App* made = named(commands.add(
      "set", "Store a credential and say where it may be used",
      "Reads the value from standard input, or asks for it without echo. Sandboxes see a stub of "
      "the same shape;\nthe value is put in its place only in requests that a binding covers.\n"
      "A credential of that name is replaced.",
      set));
  made->add_option("--preset", words.preset,
                   "Bindings of a service: anthropic, github, gitlab, openai, slack");
  made->add_option("--bind", words.bindings,
                   "A binding: host=HOST[,port=N][,method=M][,path=P][,header=H | query=Q | "
                   "body=B | position=body | position=path][,format=F]")
      ->type_name("BINDING")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  made->add_flag("--no-scrub", words.no_scrub, "Leave the value in answers of its hosts");
  made->footer(
      "EXAMPLES\n"
      "  pons vault set GITHUB_TOKEN --preset github < token-file\n"
      "  pons vault set API_KEY --bind 'host=api.example.com,header=X-Api-Key,format={}'\n"
      "  pons vault set API_KEY --bind 'host=api.example.com,method=GET,path=/v1/**'");

  CLI::App* turned = named(commands.add(
      "rotate", "Replace the value of a credential",
      "Reads the new value like set. Stubs in sandboxes stay good; the old value is no "
      "longer sent, and is still\nscrubbed from answers during the grace time.",
      rotate));
  turned->add_option("--grace", words.grace, "How long the old value is scrubbed (default: 1h)")
      ->type_name("TIME");

  commands.add(
      "ls", "List the credentials",
      "Shows names, hosts and ages; never a value. Exit status 1 when a sealed file cannot be "
      "used.",
      list);
  named(commands.add("show", "Show one credential's bindings", "Shows everything but the value.",
                     show));
  named(commands.add("rm", "Remove a credential",
                     "Deletes the value. Stubs of it are refused from now on.", remove));
}

}  // namespace pons::cli
