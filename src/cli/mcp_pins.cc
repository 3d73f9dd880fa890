#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent_commands.h"
#include "command.h"
#include "pons/http/query.h"
#include "terminal.h"

namespace pons::cli {

namespace {

struct Words {
  std::string project = "default";
  std::string url;
  std::vector<std::string> tools;
  bool all = false;
};

using State = const std::string&;

Result<Json> ask_brain(State dir, const Words& words, const char* method, const char* rest,
                       const Json* body = nullptr) {
  return ask(dir, "brain", method,
             fmt::format("/mcp-servers{}?project={}", rest, http::percent_encode(words.project)),
             body == nullptr ? std::string() : dump_json(*body));
}

Result<Json> find_server(State dir, const Words& words) {
  const Json answer = TRY(ask_brain(dir, words, "GET", ""));
  for (const Json& server : answer.at("servers"))
    if (server.at("url") == words.url) return server;
  return make_error(ErrorCode::kNotFound, "find MCP server",
                    "no session of the project has met this server; `pons mcp pins ls` lists them");
}

Result<int> list(State dir, const Common& common, const Words& words) {
  const Json answer = TRY(ask_brain(dir, words, "GET", ""));
  if (common.json) {
    fmt::print("{}\n", dump_json(answer));
    return 0;
  }
  std::vector<std::vector<Cell>> rows = {{{"SERVER", Tone::kDim},
                                          {"ACCEPTED", Tone::kDim},
                                          {"WAITING", Tone::kDim},
                                          {"CHANGED", Tone::kDim}}};
  for (const Json& server : answer.at("servers")) {
    const std::size_t waiting = server.at("pending").size();
    rows.push_back({server.at("url").get<std::string>(),
                    fmt::format("{}", server.at("accepted").size()),
                    {fmt::format("{}", waiting), waiting == 0 ? Tone::kPlain : Tone::kStrong},
                    age_of(server.at("updated_unix_ms").get<std::int64_t>())});
  }
  print_table(rows);
  return 0;
}

Result<int> show(State dir, const Common& common, const Words& words) {
  const Json server = TRY(find_server(dir, words));
  if (common.json) {
    fmt::print("{}\n", dump_json(server));
    return 0;
  }
  for (const auto& [name, digest] : server.at("accepted").items())
    fmt::print("accepted  {}  {}\n", name, digest.get<std::string>());
  for (const Json& tool : server.at("pending"))
    fmt::print("{}  {}  {}\n    {}\n    {}\n", tool.at("standing").get<std::string>(),
               tool.at("name").get<std::string>(), tool.at("digest").get<std::string>(),
               printable(tool.at("description").get<std::string>(), LineFeeds::kKept),
               printable(dump_json(tool.at("input_schema"))));
  return 0;
}

Result<int> accept(State dir, const Words& words) {
  if (words.all != words.tools.empty())
    return make_error(ErrorCode::kInvalid, "accept tools", "name the tools, or say --all");
  const Json server = TRY(find_server(dir, words));
  Json body = {{"url", words.url}, {"tools", Json::array()}};
  for (const Json& tool : server.at("pending"))
    if (words.all ||
        std::ranges::find(words.tools, tool.at("name").get<std::string>()) != words.tools.end())
      body["tools"].push_back({{"name", tool.at("name")}, {"digest", tool.at("digest")}});
  if (body["tools"].empty() || (!words.all && body["tools"].size() != words.tools.size()))
    return make_error(
        ErrorCode::kNotFound, "accept tools",
        "not all of these wait for somebody; `pons mcp pins show` lists those that do");
  TRY_VOID(ask_brain(dir, words, "POST", "/accept", &body));
  return 0;
}

Result<int> forget(State dir, const Words& words) {
  const Json body = {{"url", words.url}};
  TRY_VOID(ask_brain(dir, words, "POST", "/forget", &body));
  return 0;
}

}  // namespace

void add_mcp_pins(CLI::App& mcp, Common& common, int& exit_code) {
  CLI::App* group =
      mcp.add_subcommand("pins", "Tools of other MCP servers: look at changes, and accept them");
  group->require_subcommand(1);
  const auto words = std::make_shared<Words>();
  const auto add = [&](const char* name, const char* summary, const char* text, Prints prints,
                       std::function<Result<int>(State)> work) {
    CLI::App* command =
        add_state_command(*group, common, exit_code, name, summary, text, prints, std::move(work));
    command->add_option("--project", words->project, "Id of the project (default: default)");
    return command;
  };
  const auto of_server = [&](CLI::App* command) {
    command->add_option("URL", words->url, "Of the server, as its agent names it")->required();
    return command;
  };
  add("ls", "List servers that sessions have met", "And how many of their tools wait for you.",
      Prints::kData, [&common, words](State dir) { return list(dir, common, *words); });
  of_server(add("show", "Show the tools of a server",
                "Those that are accepted, by digest, and all that is said of those that wait.",
                Prints::kData, [&common, words](State dir) { return show(dir, common, *words); }));
  CLI::App* to_accept =
      of_server(add("accept", "Let sessions use tools that are new or have changed",
                    "From the next turn on. A tool that changes again waits again.", Prints::kText,
                    [words](State dir) { return accept(dir, *words); }));
  to_accept->add_option("TOOL", words->tools, "Names");
  to_accept->add_flag("--all", words->all, "All that wait now");
  of_server(add("forget", "Forget a server",
                "What it offers when it is met next is accepted, as at the first time.",
                Prints::kText, [words](State dir) { return forget(dir, *words); }));
}

}  // namespace pons::cli
