#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "model_amounts.h"
#include "pages.h"
#include "pons/base/id.h"
#include "pons/http/query.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string name;
  std::string project = "default";
  std::string parent;
  std::string kind = "user";
  std::vector<std::string> limits;
  std::vector<std::string> models;
  std::string id;
  bool no_limits = false;
  bool all = false;
};

Result<Json> limits_of(const Words& words) {
  Json limits = Json::array();
  for (const std::string& text : words.limits) limits.push_back(TRY(parse_limit(text)));
  return limits;
}

Result<int> create(const std::string& state_dir, const Common& common, const Words& words) {
  Json request = {{"name", words.name},
                  {"project", words.project},
                  {"kind", words.kind},
                  {"limits", TRY(limits_of(words))}};
  if (!words.parent.empty()) request["parent"] = words.parent;
  if (!words.models.empty()) request["models"] = words.models;
  const Json key = TRY(ask(state_dir, "gateway", "POST", "/model-keys", dump_json(request)));
  if (common.json) {
    fmt::print("{}\n", dump_json(key));
    return 0;
  }
  fmt::print(stderr, "{} for {} {}. It is shown this once; keep it.\n",
             printable(key.at("id").get<std::string>()), printable(words.kind),
             printable(words.name));
  fmt::print("{}\n", printable(key.at("key").get<std::string>()));
  return 0;
}

// The limits of a key and how much of each is used, in one line.
std::string limits_text(const Json& limits) {
  std::string text;
  for (const Json& limit : limits)
    text += fmt::format(
        "{}{} of {}/{}", text.empty() ? "" : ", ",
        amount_text(limit.at("what").get<std::string>(), limit.at("used").get<std::int64_t>()),
        amount_text(limit.at("what").get<std::string>(), limit.at("amount").get<std::int64_t>()),
        limit.at("window").get<std::string>());
  return text.empty() ? "none" : text;
}

Cell state_of(const Json& key) {
  if (!key.at("revoked_unix_ms").is_null()) return {"revoked", Tone::kBad};
  for (const Json& limit : key.at("limits"))
    if (limit.at("used").get<std::int64_t>() >= limit.at("amount").get<std::int64_t>())
      return {"used up", Tone::kBad};
  if (!key.at("warnings").empty()) return {"nearly used up", Tone::kStrong};
  return {"good", Tone::kGood};
}

Result<int> list(const std::string& state_dir, const Common& common, const Words& words) {
  Json answer =
      TRY(ask_whole(state_dir, "gateway",
                    fmt::format("/model-keys?project={}&state={}",
                                http::percent_encode(words.project), words.all ? "all" : "good"),
                    "keys"));
  std::ranges::sort(answer.at("keys").get_ref<Json::array_t&>(), {}, [](const Json& key) {
    return std::pair(key.at("created_unix_ms").get<std::int64_t>(),
                     key.at("id").get<std::string>());
  });
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"ID", Tone::kDim},
                                          {"KIND", Tone::kDim},
                                          {"NAME", Tone::kDim},
                                          {"PARENT", Tone::kDim},
                                          {"LIMITS", Tone::kDim},
                                          {"STATE", Tone::kDim}}};
  for (const Json& key : answer.at("keys"))
    rows.push_back({key.at("id").get<std::string>(), key.at("kind").get<std::string>(),
                    key.at("name").get<std::string>(), key.at("parent").get<std::string>(),
                    limits_text(key.at("limits")), state_of(key)});
  print_table(rows);
  return 0;
}

Result<void> check_id(const std::string& id) {
  if (is_id_text(id)) return {};
  return make_error(ErrorCode::kInvalid, "read id",
                    "name the id of a key, as `pons keys ls` shows it; never the key itself");
}

Result<int> set(const std::string& state_dir, const Common& common, const Words& words) {
  TRY_VOID(check_id(words.id));
  Json change = Json::object();
  if (!words.limits.empty() || words.no_limits) change["limits"] = TRY(limits_of(words));
  if (!words.models.empty()) change["models"] = words.models;
  const Json key =
      TRY(ask(state_dir, "gateway", "PATCH", "/model-keys/" + words.id, dump_json(change)));
  if (common.json)
    fmt::print("{}\n", dump_json(key));
  else
    fmt::print("{}: {}\n", words.id, limits_text(key.at("limits")));
  return 0;
}

Result<int> revoke(const std::string& state_dir, const Common& common, const Words& words) {
  TRY_VOID(check_id(words.id));
  const Json answer = TRY(ask(state_dir, "gateway", "DELETE", "/model-keys/" + words.id));
  if (common.json)
    fmt::print("{}\n", dump_json(answer));
  else
    fmt::print("revoked {} and all below it\n", words.id);
  return 0;
}

void add_limits(CLI::App& command, Words& words) {
  command
      .add_option("--limit", words.limits,
                  "So much in each window: 5usd/day, 1000000tokens/month, 60requests/minute, "
                  "3600sandbox_seconds/day; a window is minute, hour, day, week, month or total")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--model", words.models, "Models it may call, with * for anything (default: all)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace

void add_keys(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "keys",
                                "Keys for models, each with a budget");
  Words& words = commands.words();

  CLI::App* made =
      commands.add("create", "Make a key for models",
                   "Prints the key, this once. It works wherever a model's API key is asked for; "
                   "what is called\n"
                   "with it counts against its own limits and those of every key above it.",
                   create);
  made->add_option("name", words.name, "What people call it")->required();
  made->add_option("--project", words.project, "Id of its project (default: default)");
  made->add_option("--parent", words.parent, "Id of the key above it (default: the project's own)");
  made->add_option("--kind", words.kind,
                   "Whose it is: team, user, agent, schedule or session (default: user)");
  add_limits(*made, words);
  made->footer(
      "EXAMPLES\n"
      "  export ANTHROPIC_API_KEY=$(pons keys create laptop --limit 5usd/day)\n"
      "  pons keys create ci --kind agent --parent mk_… --limit 60requests/minute --model "
      "'claude-*'");

  CLI::App* listed = commands.add("ls", "List the keys",
                                  "Shows what each may use and has used; never a key.", list);
  listed->add_option("--project", words.project, "Id of the project (default: default)");
  listed->add_flag("--all", words.all, "Revoked ones, too");

  CLI::App* changed =
      commands.add("set", "Change what a key may use", "Takes effect with the next call.", set);
  changed->add_option("id", words.id, "Id of the key: mk_…")->required();
  changed->add_flag("--no-limits", words.no_limits, "Take all limits away");
  add_limits(*changed, words);

  commands
      .add("revoke", "Refuse a key from now on",
           "Calls with the key, and with every key below it, are refused. There is no way back.",
           revoke)
      ->add_option("id", words.id, "Id of the key: mk_…")
      ->required();
}

}  // namespace pons::cli
