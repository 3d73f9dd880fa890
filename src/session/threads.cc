#include <algorithm>

#include <fmt/format.h>

#include "budget_share.h"
#include "call_end.h"
#include "driver.h"
#include "pons/memory/tools.h"
#include "pons/session/call_id.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "thread_watch.h"

// Agents that do a call of another.

namespace pons::session {

namespace {

AgentSpec one_deeper(AgentSpec agent) {
  agent.depth += 1;
  return agent;
}

// What a person would have to allow, an agent of an agent that is no thread does not have.
void leave_out_memory_that_asks(AgentSpec& agent) {
  for (const std::string& tool : agent.asks) {
    if (!memory::is_memory_tool(tool)) continue;
    if (tool != memory::kWriteTool && tool != memory::kDeleteTool) return agent.memory.clear();
    for (MemoryGrant& grant : agent.memory) grant.read_only = true;
  }
}

// Nobody follows an agent of an agent that is no thread: it has none of the tools that wait for
// somebody outside.
AgentSpec without_waiting(AgentSpec agent) {
  leave_out_memory_that_asks(agent);
  if (agent.tools.empty())
    agent.tools = {std::string(kProvision), std::string(kExecute), std::string(kSpawnAgent)};
  std::erase_if(agent.tools, [&](const std::string& tool) {
    return tool == kAskHuman || std::ranges::find(agent.asks, tool) != agent.asks.end() ||
           is_done_outside(agent, tool);
  });
  if (agent.tools.empty()) agent.tools.emplace_back(kNoTool);
  agent.asks.clear();
  agent.custom.clear();
  return agent;
}

}  // namespace

std::string Driver::child_of(Seq call) const {
  return child_session_of(lease_.session, call);
}

// A member, or one that the call describes: without threads of its own.
AgentSpec Driver::thread_agent(const SpawnArguments& arguments) const {
  const AgentSpec* member = state_.agent.members.find(arguments.agent);
  AgentSpec agent = member == nullptr ? state_.agent : *member;
  agent.depth = state_.agent.depth + 1;
  agent.has_threads = agent.makes_members = false;
  agent.members = {};
  agent.machine_of = machine_name(state_);
  agent.memory = state_.agent.memory;  // which is the session's
  agent.budget_nano = state_.agent.budget_nano;
  agent.budget_tokens = state_.agent.budget_tokens;
  if (member != nullptr) return agent;
  agent.name = kInlineAgent;
  agent.harness.clear();  // one is enough in a machine
  std::erase(agent.tools, kSpawnAgent);
  if (agent.tools.empty()) agent.tools.emplace_back(kNoTool);
  return agent;
}

// The log says whose the machine is before anybody has made it: its agents work on it, too, and
// whoever makes it may be interrupted before it is used.
void Driver::bind_machine(Seq call) {
  const ProvisionOrder order = machine_order();
  if (state_.has_sandbox(order.sandbox)) return;
  deliver({.events = {SandboxBound{.call = call,
                                   .sandbox = order.sandbox,
                                   .sandbox_template = order.sandbox_template,
                                   .kept = true,
                                   .known_as = {},
                                   .node = world_.node}},
           .effect = call});
}

Task<Driver::Item> Driver::spawn_agent(const Call& call) {
  const TimePoint begun = world_.loop.now();
  Item item;
  const bool is_thread = state_.agent.has_threads;
  const auto arguments = is_thread ? read_task(state_.agent, call.input) : read_spawn(call.input);
  if (!arguments) {
    item.events.push_back(refused(call.seq, arguments.error()));
    co_return item;
  }
  AgentSpec agent =
      is_thread ? thread_agent(*arguments) : without_waiting(one_deeper(state_.agent));
  // What must not be shown to people is of no use to another agent: it has sandboxes of its own.
  if (!arguments->system.empty()) agent.system = (co_await redact(arguments->system)).text;
  std::string task = (co_await redact(arguments->task)).text;
  const BudgetShare share = share_of(state_, call, *arguments);
  agent.budget_nano = share.nano;
  agent.budget_tokens = share.tokens;
  if (is_thread && has_machine(agent)) bind_machine(call.seq);
  ThreadWatch watch(call.seq, call.thread);
  const auto tell = [&](const std::vector<StoredEvent>& events) {
    if (auto changed = watch.take(events))
      deliver({.events = {std::move(*changed)}, .effect = call.seq});
  };
  const auto report =
      co_await world_.run_child({.session = child_of(call.seq),
                                 .project = lease_.project,
                                 .parent = lease_.session,
                                 .parent_call = call.seq,
                                 .agent = std::move(agent),
                                 .task = std::move(task),
                                 .untrusted = state_.has_read_untrusted,
                                 .on_events = is_thread ? Watching(tell) : Watching()});
  if (!report) {
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  const bool ended_well = report->ended == name_of(EndReason::kEndTurn);
  ToolText text = describe(report->text, !ended_well);
  if (!ended_well) text.text += fmt::format("\n[the agent stopped: {}]", report->ended);
  put_text(std::move(text),
           {.call = call.seq,
            .usage = report->usage,
            .untrusted = report->untrusted,
            .took_ms = milliseconds_since(world_.loop, begun)},
           item);
  co_return item;
}

}  // namespace pons::session
