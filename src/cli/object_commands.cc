#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "file_words.h"
#include "pons/config/document.h"
#include "pons/http/query.h"
#include "pons/linux/fd.h"
#include "state_commands.h"
#include "terminal.h"

// Objects of the Managed Agents API, by name of their kind: `pons agents ls`, `pons environments
// create …`. What a command sends and shows is the API's own, so its page describes these, too.

namespace pons::cli {

namespace {

struct Column {
  const char* title;
  const char* pointer;  // into the object
};

// A verb with nothing but the id of an object: POST /v1/KIND/ID/NAME.
struct Verb {
  const char* name;
  const char* summary;
  const char* text;
};

// What has come of one object, in a collection of its own: GET /v1/COLLECTION?FILTER=ID.
struct Offspring {
  Verb verb;
  const char* collection;
  const char* filter;
  std::vector<Column> columns;
};

struct Kind {
  const char* name;  // of the command and of the API's collection
  const char* one;
  const char* summary;
  std::vector<Column> columns;
  std::vector<Verb> verbs;
  std::optional<Offspring> offspring = std::nullopt;
  bool can_be_deleted = false;
  bool has_packages = false;  // which are built into templates, in the background
};

struct Words {
  std::string project = "default";
  std::string id;
  std::string file = "-";
  bool all = false;
  bool again = false;
};

constexpr std::size_t kDocumentBytesMax = 1 << 20;

std::string target_of(const char* collection, const Words& words, const std::string& rest,
                      const std::string& query = {}) {
  return fmt::format("/v1/{}{}?project={}{}", collection, rest, http::percent_encode(words.project),
                     query);
}

std::string below(const Words& words, std::string_view verb = {}) {
  return fmt::format("/{}{}{}", http::percent_encode(words.id), verb.empty() ? "" : "/", verb);
}

Result<Json> ask_api(const std::string& state_dir, const char* method, const std::string& target,
                     const std::string& body = {}) {
  return ask(state_dir, "brain", method, target, body);
}

std::string text_at(const Json& object, const char* pointer) {
  const auto place = Json::json_pointer(pointer);
  if (!object.contains(place) || object.at(place).is_null()) return "-";
  const Json& value = object.at(place);
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

void print_rows(const std::vector<Column>& columns, const std::vector<Json>& objects) {
  std::vector<std::vector<Cell>> rows(1);
  for (const Column& column : columns) rows.front().emplace_back(column.title, Tone::kDim);
  for (const Json& object : objects) {
    auto& row = rows.emplace_back();
    for (const Column& column : columns)
      row.emplace_back(text_at(object, column.pointer),
                       object.value("archived_at", Json()).is_null() ? Tone::kPlain : Tone::kDim);
  }
  print_table(rows);
}

Result<int> list(const char* collection, const std::vector<Column>& columns,
                 const std::string& filter, const std::string& state_dir, const Common& common,
                 const Words& words) {
  constexpr std::size_t kObjectsMax = 10'000;
  std::vector<Json> objects;
  std::string page;
  do {
    std::string query = filter + "&limit=100";
    if (words.all) query += "&include_archived=true";
    if (!page.empty()) query += "&page=" + http::percent_encode(page);
    const Json answer = TRY(ask_api(state_dir, "GET", target_of(collection, words, "", query)));
    for (const Json& object : answer.at("data")) objects.push_back(object);
    const Json& next = answer.at("next_page");
    page = next.is_null() ? "" : next.get<std::string>();
  } while (!page.empty() && objects.size() < kObjectsMax);
  if (common.json)
    fmt::print("{}\n", dump_json({{"data", objects}}));
  else
    print_rows(columns, objects);
  return 0;
}

// People read an object best as the document that it is.
void print_object(const Json& object, const Common& common) {
  constexpr int kIndent = 2;
  fmt::print("{}\n",
             common.json ? dump_json(object) : printable(object.dump(kIndent), LineFeeds::kKept));
}

Result<Json> read_body(const Words& words) {
  const bool is_stdin = words.file == "-";
  const std::string text = is_stdin ? TRY(linux::read_all(STDIN_FILENO, kDocumentBytesMax))
                                    : TRY(linux::read_file(words.file, kDocumentBytesMax));
  Json body = TRY(config::read_document(text, is_stdin ? "standard input" : words.file));
  if (!body.is_object())
    return make_error(ErrorCode::kInvalid, "read document",
                      fmt::format("{}: a mapping of keys to values is expected", words.file));
  return body;
}

Result<int> send_document(const Kind& kind, const std::string& state_dir, const Common& common,
                          const Words& words) {
  const Json body = TRY(read_body(words));
  const Json object = TRY(ask_api(state_dir, "POST",
                                  target_of(kind.name, words, words.id.empty() ? "" : below(words)),
                                  dump_json(body)));
  if (common.json)
    print_object(object, common);
  else
    fmt::print("{}\n", printable(object.at("id").get<std::string>()));
  return 0;
}

// How far the packages of an environment are; empty where it has none.
std::string describe_build(const Json& build) {
  const std::string state = text_at(build, "/state");
  if (state == "none" || state == "-") return {};
  std::string text = fmt::format("packages: {}", state);
  if (const std::string step = text_at(build, "/step"); step != "-")
    text += fmt::format(" ({}; {} of {} steps are done)", step, text_at(build, "/steps_done"),
                        text_at(build, "/steps"));
  if (const std::string error = text_at(build, "/error"); error != "-") text += ": " + error;
  return printable(text, LineFeeds::kKept);
}

Result<Json> ask_build(const char* method, const std::string& state_dir, const Words& words) {
  return ask_api(state_dir, method,
                 fmt::format("/environments/{}/build?project={}", http::percent_encode(words.id),
                             http::percent_encode(words.project)));
}

Result<int> show(const Kind& kind, const std::string& state_dir, const Common& common,
                 const Words& words) {
  print_object(TRY(ask_api(state_dir, "GET", target_of(kind.name, words, below(words)))), common);
  if (!kind.has_packages || common.json) return 0;
  const std::string build = describe_build(TRY(ask_build("GET", state_dir, words)));
  if (!build.empty()) fmt::print("{}\n", build);
  return 0;
}

Result<int> show_build(const std::string& state_dir, const Common& common, const Words& words) {
  const Json build = TRY(ask_build(words.again ? "POST" : "GET", state_dir, words));
  if (common.json) {
    print_object(build, common);
    return 0;
  }
  const std::string text = describe_build(build);
  fmt::print("{}\n", text.empty() ? "packages: none" : text);
  const std::string output = text_at(build, "/output");
  if (output != "-" && !output.empty()) fmt::print("{}\n", printable(output, LineFeeds::kKept));
  return 0;
}

class ObjectCommands {
 public:
  ObjectCommands(CLI::App& app, Common& common, int& exit_code, const Kind& kind)
      : group_(*app.add_subcommand(kind.name, kind.summary)),
        common_(common),
        exit_code_(exit_code),
        kind_(kind) {
    group_.require_subcommand(1);
  }

  using Work =
      std::function<Result<int>(const std::string& state_dir, const Common&, const Words&)>;

  CLI::App* add(const char* name, const std::string& summary, const std::string& text, Work work) {
    CLI::App* command = add_state_command(
        group_, common_, exit_code_, name, summary.c_str(), text.c_str(), Prints::kData,
        [&common = common_, words = words_, work = std::move(work)](const std::string& dir) {
          return work(dir, common, *words);
        });
    command->add_option("--project", words_->project, "Id of the project (default: default)");
    return command;
  }
  CLI::App* add_for_one(const char* name, const std::string& summary, const std::string& text,
                        Work work) {
    CLI::App* command = add(name, summary, text, std::move(work));
    command->add_option("ID", words_->id, fmt::format("Id of the {}", kind_.one))->required();
    return command;
  }
  void read_file(CLI::App* command) {
    command
        ->add_option("-f,--file", words_->file,
                     "File with the document, YAML or JSON (default: standard input)")
        ->type_name(kFile);
  }

  Words& words() { return *words_; }

 private:
  CLI::App& group_;
  Common& common_;
  int& exit_code_;
  const Kind& kind_;
  std::shared_ptr<Words> words_ = std::make_shared<Words>();
};

void add_objects(CLI::App& app, Common& common, int& exit_code, const Kind& kind) {
  using Dir = const std::string&;
  ObjectCommands commands(app, common, exit_code, kind);
  commands
      .add("ls", fmt::format("List the {}", kind.name), "One line for each, the newest first.",
           [&kind](Dir dir, const Common& c, const Words& words) {
             return list(kind.name, kind.columns, "", dir, c, words);
           })
      ->add_flag("-a,--all", commands.words().all, "Also archived ones");
  commands.add_for_one(
      "show", fmt::format("Show one {}", kind.one),
      kind.has_packages ? "The whole document, and how far its packages are."
                        : "The whole document.",
      [&kind](Dir dir, const Common& c, const Words& words) { return show(kind, dir, c, words); });
  const auto send = [&kind](Dir dir, const Common& c, const Words& words) {
    return send_document(kind, dir, c, words);
  };
  commands.read_file(commands.add("create", fmt::format("Make one {}", kind.one),
                                  "Out of a document in the shape of the API. Prints its id.",
                                  send));
  commands.read_file(commands.add_for_one(
      "update", fmt::format("Change one {}", kind.one),
      "The document holds what is to be other than it is. Prints its id.", send));
  for (const Verb& verb : kind.verbs)
    commands.add_for_one(
        verb.name, verb.summary, verb.text,
        [&kind, name = verb.name](Dir dir, const Common& c, const Words& words) -> Result<int> {
          print_object(TRY(ask_api(dir, "POST", target_of(kind.name, words, below(words, name)))),
                       c);
          return 0;
        });
  if (kind.offspring)
    commands.add_for_one(
        kind.offspring->verb.name, kind.offspring->verb.summary, kind.offspring->verb.text,
        [&made = *kind.offspring](Dir dir, const Common& c, const Words& words) {
          return list(made.collection, made.columns,
                      fmt::format("&{}={}", made.filter, http::percent_encode(words.id)), dir, c,
                      words);
        });
  if (kind.has_packages)
    commands
        .add_for_one("build", "Show how far the packages of an environment are",
                     "And the end of what their managers wrote.", show_build)
        ->add_flag("--again", commands.words().again, "Try what failed again, now");
  if (kind.can_be_deleted)
    commands.add_for_one(
        "rm", fmt::format("Delete one {}", kind.one), "There is no way back.",
        [&kind](Dir dir, const Common&, const Words& words) -> Result<int> {
          TRY_VOID(ask_api(dir, "DELETE", target_of(kind.name, words, below(words))));
          return 0;
        });
}

const Kind kAgents = {
    .name = "agents",
    .one = "agent",
    .summary = "Agents of the API: what sessions are made of",
    .columns = {{"ID", "/id"},
                {"NAME", "/name"},
                {"VERSION", "/version"},
                {"MODEL", "/model/id"},
                {"UPDATED", "/updated_at"},
                {"ARCHIVED", "/archived_at"}},
    .verbs = {{"archive", "Make no new sessions with an agent", "Sessions that are there go on."}}};

const Kind kEnvironments = {.name = "environments",
                            .one = "environment",
                            .summary = "Environments of the API: where sessions work",
                            .columns = {{"ID", "/id"},
                                        {"NAME", "/name"},
                                        {"TYPE", "/config/type"},
                                        {"NETWORK", "/config/networking/type"},
                                        {"UPDATED", "/updated_at"},
                                        {"ARCHIVED", "/archived_at"}},
                            .verbs = {{"archive", "Make no new sessions in an environment",
                                       "Sessions that are there go on."}},
                            .can_be_deleted = true,
                            .has_packages = true};

const Kind kDeployments = {
    .name = "deployments",
    .one = "deployment",
    .summary = "Deployments of the API: sessions that begin at their times",
    .columns = {{"ID", "/id"},
                {"NAME", "/name"},
                {"STATUS", "/status"},
                {"SCHEDULE", "/schedule/expression"},
                {"ZONE", "/schedule/timezone"},
                {"NEXT", "/schedule/upcoming_runs_at/0"},
                {"ARCHIVED", "/archived_at"}},
    .verbs = {{"run", "Begin a session now", "Whatever the schedule says. Shows the run."},
              {"pause", "Begin nothing by schedule for now", "Runs by hand are still possible."},
              {"unpause", "Begin by schedule again", "What was missed is not made up for."},
              {"archive", "Begin nothing any more", "There is no way back."}},
    .offspring = Offspring{.verb = {"runs", "List what a deployment has begun",
                                    "One line for each run, the newest first."},
                           .collection = "deployment_runs",
                           .filter = "deployment_id",
                           .columns = {{"ID", "/id"},
                                       {"TRIGGER", "/trigger_context/type"},
                                       {"SESSION", "/session_id"},
                                       {"ERROR", "/error/message"},
                                       {"CREATED", "/created_at"}}}};

}  // namespace

void add_agents(CLI::App& app, Common& common, int& exit_code) {
  add_objects(app, common, exit_code, kAgents);
}

void add_environments(CLI::App& app, Common& common, int& exit_code) {
  add_objects(app, common, exit_code, kEnvironments);
}

void add_deployments(CLI::App& app, Common& common, int& exit_code) {
  add_objects(app, common, exit_code, kDeployments);
}

}  // namespace pons::cli
