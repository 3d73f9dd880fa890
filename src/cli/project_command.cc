#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "state_commands.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string name;
};

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
  std::vector<std::vector<Cell>> rows = {
      {{"NAME", Tone::kDim}, {"ID", Tone::kDim}, {"CREATED", Tone::kDim}}};
  for (const Json& project : answer.at("projects"))
    rows.push_back({project.at("name").get<std::string>(), project.at("id").get<std::string>(),
                    age_of(project.at("created_unix_ms").get<std::int64_t>()) + " ago"});
  print_table(rows);
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
  commands.add("ls", "List the projects", "Shows names, ids and ages.", list);
}

}  // namespace pons::cli
