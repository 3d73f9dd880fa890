#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "pons/base/id.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string name;
  std::string project;
  std::vector<std::string> scopes;
  std::string id;
};

std::string scopes_of(const Json& key) {
  return fmt::format("{}", fmt::join(key.at("scopes").get<std::vector<std::string>>(), " "));
}

Result<int> create(const std::string& state_dir, const Common& common, const Words& words) {
  Json request = {{"name", words.name}};
  if (!words.project.empty()) request["project"] = words.project;
  if (!words.scopes.empty()) request["scopes"] = words.scopes;
  const Json key = TRY(ask(state_dir, "brain", "POST", "/api-keys", dump_json(request)));
  if (common.json) {
    fmt::print("{}\n", dump_json(key));
    return 0;
  }
  // The key alone on standard output, so that it can go into a file or a variable.
  fmt::print(stderr, "{} for project {}: {}. It is shown this once; keep it.\n",
             printable(key.at("id").get<std::string>()),
             printable(key.at("project").get<std::string>()), printable(scopes_of(key)));
  fmt::print("{}\n", printable(key.at("key").get<std::string>()));
  return 0;
}

Result<int> list(const std::string& state_dir, const Common& common, const Words&) {
  const Json answer = TRY(ask(state_dir, "brain", "GET", "/api-keys"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"NAME", Tone::kDim},
                                          {"PROJECT", Tone::kDim},
                                          {"SCOPES", Tone::kDim},
                                          {"CREATED", Tone::kDim},
                                          {"STATE", Tone::kDim}}};
  for (const Json& key : answer.at("keys")) {
    const Json& revoked = key.at("revoked_unix_ms");
    rows.push_back(
        {key.at("id").get<std::string>(), key.at("name").get<std::string>(),
         key.at("project").get<std::string>(), scopes_of(key),
         age_of(key.at("created_unix_ms").get<std::int64_t>()) + " ago",
         revoked.is_null()
             ? Cell("good", Tone::kGood)
             : Cell("revoked " + age_of(revoked.get<std::int64_t>()) + " ago", Tone::kBad)});
  }
  print_table(rows);
  return 0;
}

Result<int> revoke(const std::string& state_dir, const Common& common, const Words& words) {
  if (!is_id_text(words.id))
    return make_error(ErrorCode::kInvalid, "read id",
                      "name the id of a key, as `pons key ls` shows it; never the key itself");
  const Json answer = TRY(ask(state_dir, "brain", "DELETE", "/api-keys/" + words.id));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("revoked {}\n", words.id);
  return 0;
}

}  // namespace

void add_key(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "key", "Make and revoke API keys");
  Words& words = commands.words();

  CLI::App* made = commands.add("create", "Make a key",
                                "Prints the key, this once: Pons keeps only its hash.", create);
  made->add_option("name", words.name, "What people call it")->required();
  made->add_option("--project", words.project, "Name or id of its project (default: default)");
  made->add_option("--scope", words.scopes,
                   "What it opens: sandboxes, agents, sessions, models, mcp, read, admin (default: "
                   "all but the "
                   "last two)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  made->footer(
      "EXAMPLES\n"
      "  export E2B_API_KEY=$(pons key create laptop)\n"
      "  pons key create ci --project web --scope sandboxes");

  commands.add("ls", "List the keys", "Shows ids, names and scopes; never a key.", list);
  commands
      .add("revoke", "Refuse a key from now on",
           "Requests with the key are refused within a second. There is no way back.", revoke)
      ->add_option("id", words.id, "Id of the key: key_…")
      ->required();
}

}  // namespace pons::cli
