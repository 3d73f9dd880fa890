#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pons/base/result.h"
#include "pons/session/event.h"
#include "pons/session/tool_text.h"
#include "pons/session/world.h"

// The tools of an agent that has one machine for as long as its session lasts, instead of taking
// sandboxes itself: bash, read, write, edit, glob, grep and web_fetch. Each call becomes one
// command in the session's sandbox, so that it is run once whatever happens, under all limits of a
// command.

namespace pons::session {

struct MachineTool {
  std::string_view name;
  std::string_view definition;  // JSON
};
std::span<const MachineTool> machine_tools();
bool is_machine_tool(std::string_view name);
bool has_machine(const AgentSpec& agent);

struct MachineCommand {
  std::string command;  // for /bin/sh
  std::string input;
  std::int64_t timeout_seconds = 0;
};
// An error is a sentence for the model. The rules are those of web_fetch.
Result<MachineCommand> read_machine_call(std::string_view name, std::string_view input,
                                         const WebRules& web = {});

// The command uses a shell of that name, with a place and variables of its own. `name`: an id.
void use_own_shell(MachineCommand& command, std::string_view name);

// What the model reads of it: for `bash` all, for the others what they found or why not.
ToolText describe_machine(std::string_view name, ExecuteReport report);

}  // namespace pons::session
