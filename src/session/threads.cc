#include <algorithm>

#include <fmt/format.h>

#include "call_end.h"
#include "driver.h"
#include "pons/session/call_id.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "thread_watch.h"

// Agents that do a call of another.

namespace pons::session {

namespace {

constexpr std::int64_t kSharePercent = 25;

AgentSpec one_deeper(AgentSpec agent) {
  agent.depth += 1;
  return agent;
}

// Nobody follows an agent of an agent that is no thread: it has none of the tools that wait for
// somebody outside.
AgentSpec without_waiting(AgentSpec agent) {
  if (agent.asks.empty() && agent.custom.empty() && !agent.outside) return agent;
  if (agent.tools.empty())
    agent.tools = {std::string(kProvision), std::string(kExecute), std::string(kSpawnAgent)};
  std::erase_if(agent.tools, [&](const std::string& tool) {
    return std::ranges::find(agent.asks, tool) != agent.asks.end() || is_done_outside(agent, tool);
  });
  if (agent.tools.empty()) agent.tools.emplace_back(kNoTool);
  agent.asks.clear();
  agent.custom.clear();
  return agent;
}

std::int64_t percent_of(const SpawnArguments& arguments) {
  return arguments.budget_percent == 0 ? kSharePercent : arguments.budget_percent;
}

// Of what is left when everyone who was asked before, in the same answer, has had their share: all
// of them together get no more than there is.
std::int64_t share_of(const State& state, const Call& call, std::int64_t percent,
                      std::int64_t budget, std::int64_t used) {
  if (budget == 0) return 0;
  std::int64_t left = budget - used;
  for (const Call& other : state.calls) {
    if (other.seq == call.seq) break;
    if (other.name != kSpawnAgent || !other.is_open()) continue;
    if (const auto arguments = read_spawn(other.input)) left -= left * percent_of(*arguments) / 100;
  }
  return std::max<std::int64_t>(1, left * percent / 100);
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
  agent.budget_nano = state_.agent.budget_nano;
  agent.budget_tokens = state_.agent.budget_tokens;
  if (member != nullptr) return agent;
  agent.name = kInlineAgent;
  std::erase(agent.tools, kSpawnAgent);
  if (agent.tools.empty()) agent.tools.emplace_back(kNoTool);
  return agent;
}

// Its agents work on the machine: the log says whose it is before any of them has made it.
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
  const std::int64_t percent = percent_of(*arguments);
  AgentSpec agent =
      is_thread ? thread_agent(*arguments) : without_waiting(one_deeper(state_.agent));
  // What must not be shown to people is of no use to another agent: it has sandboxes of its own.
  if (!arguments->system.empty()) agent.system = (co_await redact(arguments->system)).text;
  std::string task = (co_await redact(arguments->task)).text;
  agent.budget_nano = share_of(state_, call, percent, agent.budget_nano, state_.usage.cost_nano);
  agent.budget_tokens =
      share_of(state_, call, percent, agent.budget_tokens, state_.usage.all_tokens());
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
                                 .on_events = is_thread ? Watching(tell) : Watching()});
  if (!report) {
    item.events.push_back(failed(call.seq, report.error()));
    co_return item;
  }
  const bool ended_well = report->ended == name_of(EndReason::kEndTurn);
  ToolText text = describe(report->text, !ended_well);
  if (!ended_well) text.text += fmt::format("\n[the agent stopped: {}]", report->ended);
  put_text(
      std::move(text),
      {.call = call.seq, .usage = report->usage, .took_ms = milliseconds_since(world_.loop, begun)},
      item);
  co_return item;
}

}  // namespace pons::session
