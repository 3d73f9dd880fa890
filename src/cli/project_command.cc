#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/query.h"
#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string name;
  std::string sandboxes;
  std::string sessions;
  std::string requests_per_second;
};

std::string shown_limit(const Json& project, const char* name) {
  const Json& limit = project.at("limits").at(name);
  return limit.is_null() ? "-" : dump_json(limit);
}

Result<int> create(const std::string& state_dir, const Common& common, const Words& words) {
  const Json project =
      TRY(ask(state_dir, "brain", "POST", "/projects", dump_json({{"name", words.name}})));
  if (common.json)
    fmt::print("{}\n", dump_json(project));
  else
    fmt::print("created {} ({})\n", printable(project.at("name").get<std::string>()),
               printable(project.at("id").get<std::string>()));
  return 0;
}

Result<int> list(const std::string& state_dir, const Common& common, const Words&) {
  const Json answer = TRY(ask(state_dir, "brain", "GET", "/projects"));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"NAME", Tone::kDim},
                                          {"ID", Tone::kDim},
                                          {"CREATED", Tone::kDim},
                                          {"SANDBOXES", Tone::kDim},
                                          {"SESSIONS", Tone::kDim},
                                          {"REQUESTS/S", Tone::kDim}}};
  for (const Json& project : answer.at("projects"))
    rows.push_back({project.at("name").get<std::string>(), project.at("id").get<std::string>(),
                    age_of(project.at("created_unix_ms").get<std::int64_t>()) + " ago",
                    shown_limit(project, "sandboxes"), shown_limit(project, "sessions"),
                    shown_limit(project, "requests_per_second")});
  print_table(rows);
  return 0;
}

Result<int> limit(const std::string& state_dir, const Common& common, const Words& words) {
  Json changes = Json::object();
  const auto say = [&](const char* name, const std::string& text) -> Result<void> {
    if (text.empty()) return {};
    const auto number = parse_decimal(text);
    if (!number && text != "none")
      return make_error(ErrorCode::kInvalid, "read limit",
                        fmt::format("{} is a number, or none", name));
    changes[name] = number ? Json(*number) : Json(nullptr);
    return {};
  };
  TRY_VOID(say("sandboxes", words.sandboxes));
  TRY_VOID(say("sessions", words.sessions));
  TRY_VOID(say("requests_per_second", words.requests_per_second));
  const Json project = TRY(ask(state_dir, "brain", "POST",
                               fmt::format("/projects/{}/limits", http::percent_encode(words.name)),
                               dump_json(changes)));
  if (common.json)
    fmt::print("{}\n", dump_json(project));
  else
    fmt::print("{}: sandboxes {}, sessions {}, requests per second {}\n",
               printable(project.at("name").get<std::string>()), shown_limit(project, "sandboxes"),
               shown_limit(project, "sessions"), shown_limit(project, "requests_per_second"));
  return 0;
}

}  // namespace

void add_project(CLI::App& app, Common& common, int& exit_code) {
  StateCommands<Words> commands(app, common, exit_code, "project",
                                "Keep apart what belongs to different people");
  Words& words = commands.words();
  commands
      .add("create", "Make a project",
           "A key opens one project: what is made with it is seen by keys of the same project "
           "only.\n"
           "The project \"default\" is always there.",
           create)
      ->add_option("name", words.name, "Letters, digits, - and _")
      ->required();
  commands.add("ls", "List the projects", "Shows names, ids, ages and limits.", list);
  CLI::App* limited = commands.add(
      "limit", "Say how much a project may have at a time",
      "What is over a new limit already stays; nothing is added to it. Without options, shows the "
      "limits.",
      limit);
  limited->add_option("name", words.name, "Name or id of the project")->required();
  limited->add_option("--sandboxes", words.sandboxes, "Sandboxes alive; a number, or none");
  limited->add_option("--sessions", words.sessions, "Sessions that are not archived");
  limited->add_option("--requests-per-second", words.requests_per_second,
                      "Requests of all its keys together");
}

}  // namespace pons::cli
