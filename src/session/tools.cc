#include "pons/session/tools.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json_place.h"
#include "pons/memory/tools.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tool_text.h"

namespace pons::session {

namespace {

struct Tool {
  std::string_view name;
  std::string_view definition;  // JSON
};

constexpr std::array<Tool, 4> kTools =
    {
        {
            {kProvision,
             R"json({"name":"sandbox_provision","description":"Takes a fresh, isolated Linux sandbox for a task and returns its id and what is in it. Cheap: about a millisecond. It ends with your turn unless keep is true.","input_schema":{"type":"object","properties":{"task_description":{"type":"string","description":"What the sandbox is for, in one sentence."},"template":{"type":"string","description":"What it starts from; leave it out for the usual one."},"keep":{"type":"boolean","description":"True: it is still there in the user's next turn."}},"required":["task_description"],"additionalProperties":false}})json"},
            {kExecute,
             R"json({"name":"sandbox_execute","description":"Runs a shell command in a sandbox and returns its output, exit code and duration. Files stay between commands; the working directory and variables do not.","input_schema":{"type":"object","properties":{"command":{"type":"string","description":"For /bin/sh. May have several lines."},"sandbox_id":{"type":"string","description":"From sandbox_provision; leave it out for the last one."},"stdin":{"type":"string"},"timeout_seconds":{"type":"integer","minimum":1,"maximum":86400,"description":"300 unless given. The command is ended then."},"undo":{"type":"string","enum":["never","on_failure","always"],"description":"Whether changes to files are taken back: never (the usual), when the exit code is not 0, or always (a rehearsal)."}},"required":["command"],"additionalProperties":false}})json"},
            {kAskHuman, R"json({"name":"ask_human","description":"Asks the user a question and waits for the answer, however long that takes. Only for what you cannot find out or decide yourself.","input_schema":{"type":"object","properties":{"question":{"type":"string"}},"required":["question"],"additionalProperties":false}})json"},
            {kSpawnAgent,
             R"json({"name":"spawn_agent","description":"Gives a task to another agent with a conversation and sandboxes of its own, waits for it, and returns its answer. It knows nothing but what you tell it. Several calls in one answer run side by side.","input_schema":{"type":"object","properties":{"task":{"type":"string","description":"Everything it has to know."},"system":{"type":"string","description":"Who it is to be."},"budget_percent":{"type":"integer","minimum":1,"maximum":100,"description":"Of your own budget that is left; 25 unless given."}},"required":["task"],"additionalProperties":false}})json"},
        }};

constexpr std::size_t kTextBytesMax = 1 << 20;

bool may_write_memory(const AgentSpec& agent) {
  return std::ranges::any_of(agent.memory,
                             [](const MemoryGrant& grant) { return !grant.read_only; });
}

Result<Json> parse_input(std::string_view input) {
  auto json = parse_json(input);
  if (!json) return make_error(ErrorCode::kInvalid, "read arguments", "they are no JSON object");
  return json;
}

Result<std::string> text_at(const JsonPlace& place, const char* key) {
  if (!place.has(key)) return std::string();
  std::string text = TRY(place.at(key).text());
  if (text.size() > kTextBytesMax) return place.at(key).refuse("is longer than 1 MB");
  // What passes a program's arguments or a line of shell ends at a NUL.
  if (text.find('\0') != std::string::npos) return place.at(key).refuse("holds a NUL");
  return text;
}

Result<std::string> needed_text_at(const JsonPlace& place, const char* key) {
  std::string text = TRY(text_at(place, key));
  if (text.empty()) return place.refuse(std::string("\"") + key + "\" is missing");
  return text;
}

// What an agent is told that gives tasks to certain others.
std::string write_spawn(const AgentSpec& agent) {
  constexpr std::size_t kDescriptionBytes = 1'000;
  std::string description =
      "Gives a task to another agent with a conversation of its own, on the same machine as yours, "
      "waits for it, and returns its answer. It knows nothing but what you tell it. Several calls "
      "in one answer run side by side.";
  Json properties = {{"task", {{"type", "string"}, {"description", "Everything it has to know."}}}};
  Json needed = Json::array({"task"});
  Json names = Json::array();
  for (const AgentSpec& member : agent.members.all()) {
    names.push_back(member.name);
    description += fmt::format("\n- {}", member.name);
    if (!member.description.empty())
      description += ": " + shorten(member.description, kDescriptionBytes);
  }
  if (!names.empty()) properties["agent"] = {{"type", "string"}, {"enum", std::move(names)}};
  if (agent.makes_members)
    properties["system"] = {{"type", "string"},
                            {"description", "Who it is to be, when it is none of those."}};
  else
    needed.push_back("agent");
  properties["budget_percent"] = {
      {"type", "integer"},
      {"minimum", 1},
      {"maximum", 100},
      {"description", "Of your own budget that is left; 25 unless given."}};
  return dump_json({{"name", kSpawnAgent},
                    {"description", std::move(description)},
                    {"input_schema",
                     {{"type", "object"},
                      {"properties", std::move(properties)},
                      {"required", std::move(needed)},
                      {"additionalProperties", false}}}});
}

}  // namespace

bool is_allowed(const AgentSpec& agent, std::string_view tool) {
  if (tool == kSpawnAgent && agent.depth >= kDepthMax) return false;
  if (std::ranges::find(agent.custom, tool, &CustomTool::name) != agent.custom.end()) return true;
  if (memory::is_memory_tool(tool)) {
    const bool writes = tool == memory::kWriteTool || tool == memory::kDeleteTool;
    return writes ? may_write_memory(agent) : !agent.memory.empty();
  }
  const bool is_usual = std::ranges::find(kTools, tool, &Tool::name) != kTools.end();
  if (!is_usual && !is_machine_tool(tool)) return false;
  if (agent.tools.empty()) return is_usual;
  return std::ranges::find(agent.tools, tool) != agent.tools.end();
}

bool is_harness_inside(const AgentSpec& agent) {
  return agent.harness_in_machine && !agent.harness.empty();
}

bool has_network(const AgentSpec& agent) {
  return !agent.environment.empty() || !agent.network.empty();
}

bool is_own_call(const AgentSpec& agent, std::string_view tool_use_id) {
  return is_harness_inside(agent) && tool_use_id.starts_with(kOwnCall);
}

bool is_done_outside(const AgentSpec& agent, std::string_view tool) {
  if (std::ranges::find(agent.custom, tool, &CustomTool::name) != agent.custom.end()) return true;
  return agent.outside && is_machine_tool(tool);
}

// A machine without a network holds what the agent put there, and nothing of anybody else's.
bool brings_words_from_outside(const AgentSpec& agent, std::string_view tool) {
  const bool is_command = tool == kExecute || is_machine_tool(tool);
  return is_command && has_network(agent);
}

std::string write_tools(const AgentSpec& agent, const std::vector<ServerTool>& servers) {
  std::string list = "[";
  const auto add = [&list](std::string_view definition) {
    if (list.size() > 1) list += ',';
    list += definition;
  };
  for (const Tool& tool : kTools) {
    if (!is_allowed(agent, tool.name)) continue;
    const bool names_members = tool.name == kSpawnAgent && agent.has_threads;
    add(names_members ? write_spawn(agent) : std::string(tool.definition));
  }
  for (const MachineTool& tool : machine_tools())
    if (is_allowed(agent, tool.name)) add(tool.definition);
  if (!agent.memory.empty())
    add(memory::write_memory_tools(may_write_memory(agent) ? memory::Writing::kAllowed
                                                           : memory::Writing::kRefused));
  for (const CustomTool& tool : agent.custom) add(tool.definition);
  for (const ServerTool& tool : servers) add(tool.definition);
  return list + "]";
}

Result<ProvisionArguments> read_provision(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"task_description", "template", "keep"}));
  ProvisionArguments arguments;
  arguments.task_description = TRY(needed_text_at(place, "task_description"));
  arguments.sandbox_template = TRY(text_at(place, "template"));
  if (place.has("keep")) arguments.keep = TRY(place.at("keep").flag());
  return arguments;
}

Result<ExecuteArguments> read_execute(std::string_view input) {
  using Undo = ExecuteArguments::Undo;
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"command", "sandbox_id", "stdin", "timeout_seconds", "undo"}));
  ExecuteArguments arguments;
  arguments.command = TRY(needed_text_at(place, "command"));
  arguments.sandbox = TRY(text_at(place, "sandbox_id"));
  arguments.input = TRY(text_at(place, "stdin"));
  constexpr std::uint64_t kDaySeconds = 86'400;
  if (place.has("timeout_seconds"))
    arguments.timeout_seconds =
        static_cast<std::int64_t>(TRY(place.at("timeout_seconds").number(1, kDaySeconds)));
  if (place.has("undo")) {
    const std::string word = TRY(place.at("undo").text());
    if (word == "on_failure")
      arguments.undo = Undo::kOnFailure;
    else if (word == "always")
      arguments.undo = Undo::kAlways;
    else if (word != "never")
      return place.at("undo").refuse("must be never, on_failure or always");
  }
  return arguments;
}

Result<std::string> read_question(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"question"}));
  return needed_text_at(place, "question");
}

Result<SpawnArguments> read_spawn(std::string_view input) {
  const Json json = TRY(parse_input(input));
  const JsonPlace place{.value = json, .pointer = {}};
  TRY_VOID(place.expect_object({"task", "agent", "system", "budget_percent"}));
  SpawnArguments arguments;
  arguments.task = TRY(needed_text_at(place, "task"));
  arguments.agent = TRY(text_at(place, "agent"));
  arguments.system = TRY(text_at(place, "system"));
  if (place.has("budget_percent"))
    arguments.budget_percent =
        static_cast<std::int64_t>(TRY(place.at("budget_percent").number(1, 100)));
  return arguments;
}

Result<SpawnArguments> read_task(const AgentSpec& agent, std::string_view input) {
  SpawnArguments arguments = TRY(read_spawn(input));
  const auto refuse = [](std::string why) {
    return make_error(ErrorCode::kInvalid, "read arguments", std::move(why));
  };
  if (arguments.agent.empty()) {
    if (!agent.makes_members) return refuse("\"agent\" is missing: name the one that is to do it");
    if (arguments.system.empty()) return refuse("say who it is to be: \"agent\" or \"system\"");
    return arguments;
  }
  if (agent.members.find(arguments.agent) == nullptr)
    return refuse(fmt::format("there is no agent \"{}\"", arguments.agent));
  if (!arguments.system.empty()) return refuse("\"system\" is for an agent that has no name");
  return arguments;
}

bool takes_last_sandbox(std::string_view tool, std::string_view input) {
  if (tool != kExecute) return false;
  const auto arguments = read_execute(input);
  return arguments && arguments->sandbox.empty();
}

}  // namespace pons::session
