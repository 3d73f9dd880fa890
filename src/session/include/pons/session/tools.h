#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pons/base/result.h"
#include "pons/session/event.h"

// The four tools that every agent may have: what the model is told of them, and how its arguments
// are read. Those of an agent with a machine of its own are in machine_tools.h.

namespace pons::session {

inline constexpr std::string_view kProvision = "sandbox_provision";
inline constexpr std::string_view kExecute = "sandbox_execute";
inline constexpr std::string_view kAskHuman = "ask_human";
inline constexpr std::string_view kSpawnAgent = "spawn_agent";

// Whoever answers in the model's place may use tools of its own, where it lives: an answer asks for
// such a call by an id of this form, though it is being done already.
inline constexpr std::string_view kOwnCall = "own_";

// In AgentSpec::tools, alone: the agent has none of these.
inline constexpr std::string_view kNoTool = "none";

// What an agent is called that another has described.
inline constexpr std::string_view kInlineAgent = "inline";

// Agents of agents of agents make no more of them.
inline constexpr std::int64_t kDepthMax = 2;
// Agents that work for another at the same time, as threads of its session.
inline constexpr std::size_t kThreadsMax = 25;

bool is_allowed(const AgentSpec& agent, std::string_view tool);
// Whoever answers in the model's place lives in the session's machine.
bool is_harness_inside(const AgentSpec& agent);
// What its commands print may be somebody else's words.
bool has_network(const AgentSpec& agent);
// Whoever answers in the model's place does it itself.
bool is_own_call(const AgentSpec& agent, std::string_view tool_use_id);
// Whoever follows the session does it.
bool is_done_outside(const AgentSpec& agent, std::string_view tool);
// What it says may be the words of somebody who is neither the user nor the agent.
bool brings_words_from_outside(const AgentSpec& agent, std::string_view tool);
// A JSON list for the model; `servers` offer theirs beside the agent's own.
std::string write_tools(const AgentSpec& agent, const std::vector<ServerTool>& servers = {});

struct ProvisionArguments {
  std::string task_description;
  std::string sandbox_template;  // empty: the agent's
  bool keep = false;
};
struct ExecuteArguments {
  std::string command;
  std::string sandbox;  // empty: the one that was provisioned last
  std::string input;
  std::int64_t timeout_seconds = 0;  // 0: the default
  enum class Undo : std::uint8_t { kNever, kOnFailure, kAlways } undo = Undo::kNever;
};
struct SpawnArguments {
  std::string task;
  std::string agent;  // a member; empty: one like the agent itself
  std::string system;
  std::int64_t budget_percent = 0;  // of what the parent has left; 0: the default
};

// An error is a sentence for the model.
Result<ProvisionArguments> read_provision(std::string_view input);
Result<ExecuteArguments> read_execute(std::string_view input);
Result<std::string> read_question(std::string_view input);
Result<SpawnArguments> read_spawn(std::string_view input);
// The same of an agent that has threads: only to those that it may give tasks to.
Result<SpawnArguments> read_task(const AgentSpec& agent, std::string_view input);

// True when the call takes whatever sandbox is provisioned before it.
bool takes_last_sandbox(std::string_view tool, std::string_view input);

}  // namespace pons::session
