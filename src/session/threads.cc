#include <algorithm>

#include <fmt/format.h>

#include "budget_share.h"
#include "call_end.h"
#include "driver.h"
#include "pons/base/log.h"
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

// The log says whose the machine is in the commit that begins what may make it: its agents work on
// it, too, and whoever makes it may be interrupted, or die, before anything of that is heard. A
// thread leaves it to its session.
void Driver::bind_machine(std::int64_t now_ms, Batch& batch) {
  if (!state_.agent.machine_of.empty() || state_.has_sandbox(machine_id_of(machine_name(state_))))
    return;
  const auto call = std::ranges::find_if(
      state_.calls, [this](const Call& each) { return works_on_machine(each); });
  if (call == state_.calls.end()) return;
  const ProvisionOrder order = machine_order();
  batch.events.push_back({.seq = state_.head + 1,
                          .at_ms = now_ms,
                          .event = SandboxBound{.call = call->seq,
                                                .sandbox = order.sandbox,
                                                .sandbox_template = order.sandbox_template,
                                                .kept = true,
                                                .known_as = {},
                                                .node = world_.node}});
  fold(state_, batch.events.back());
}

// Whether it is run here, and may make the session's machine.
bool Driver::works_on_machine(const Call& call) const {
  if (!call.is_open() || call.waits_for != WaitsFor::kNobody) return false;
  if (is_own_call(state_.agent, call.tool_use_id)) return true;
  if (is_machine_tool(call.name))
    return read_machine_call(call.name, call.input, state_.agent.web).has_value();
  if (call.name != kSpawnAgent || !state_.agent.has_threads) return false;
  const auto arguments = read_task(state_.agent, call.input);
  if (!arguments) return false;
  const AgentSpec agent = thread_agent(*arguments);
  return has_machine(agent) || is_harness_inside(agent);
}

// A session that goes to another node leaves its threads where they are, and its machine to be
// ended there. A thread that made it again would work where nobody looks, in what nobody ends. Only
// the log tells: this process may not have heard that the session is elsewhere.
Task<bool> Driver::has_lost_machine() {
  const std::string& machine = state_.agent.machine_of;
  if (machine.empty()) co_return false;
  if (state_.moves > 0) co_return true;
  if (world_.node.empty()) co_return false;
  const std::string session = machine.substr(0, machine.find(':'));
  for (;;) {
    const auto news = co_await read_on(session, machine_owner_.head);
    if (news.empty()) break;
    for (const StoredEvent& stored : news) note_of_owner(stored);
  }
  co_return machine_owner_.node != world_.node ||
      machine_name_of(session, machine_owner_.moves) != machine;
}

// Whether another node has taken this session since. Its own machine was to be ended here then, and
// who makes it meanwhile would hear of that only when the store takes nothing more.
Task<bool> Driver::has_been_taken(Seq since) {
  if (world_.node.empty() || !state_.agent.machine_of.empty()) co_return false;
  for (;;) {
    const auto news = co_await read_on(lease_.session, since);
    if (news.empty()) co_return false;
    for (const StoredEvent& stored : news)
      if (const auto* resumed = std::get_if<Resumed>(&stored.event);
          resumed != nullptr && resumed->node != world_.node)
        co_return true;
    since = news.back().seq;
  }
}

// What comes next in a log, however long the store is away; nothing: that is all of it.
Task<std::vector<StoredEvent>> Driver::read_on(std::string session, Seq after) {
  constexpr Duration kPause = std::chrono::milliseconds(500);
  constexpr std::int64_t kReadAtOnce = 500;
  for (;;) {
    auto news = co_await world_.log.read(session, after, kReadAtOnce);
    if (news) co_return std::move(*news);
    LOG_WARN("cannot read yet where the machine is", {"session", lease_.session},
             {"error", news.error()});
    co_await world_.loop.sleep_for(kPause);
  }
}

// As fold() counts. Commands that run side by side may read the same.
void Driver::note_of_owner(const StoredEvent& stored) {
  if (stored.seq <= machine_owner_.head) return;
  machine_owner_.head = stored.seq;
  if (const auto* created = std::get_if<Created>(&stored.event))
    machine_owner_.node = created->node;
  const auto* resumed = std::get_if<Resumed>(&stored.event);
  if (resumed == nullptr || resumed->node == machine_owner_.node) return;
  machine_owner_.node = resumed->node;
  machine_owner_.moves += 1;
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
