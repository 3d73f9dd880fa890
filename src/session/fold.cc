#include "pons/session/fold.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/session/conversation.h"
#include "pons/session/outcome.h"
#include "pons/session/tools.h"

namespace pons::session {

namespace {

// For the model, and for nobody else.
std::string describe_end(const AccessWait& access, const AccessEnded& event) {
  const std::string what = fmt::format("{}:{}", access.host, access.port);
  const std::string why = event.message.empty() ? "" : ": " + event.message;
  switch (event.outcome) {
    case AccessOutcome::kAllowed:
      return fmt::format("A person has allowed your sandbox to reach {}. Try again now.", what);
    case AccessOutcome::kDenied:
      return fmt::format(
          "A person has not allowed your sandbox to reach {}{}. Do not ask for it again.", what,
          why);
    case AccessOutcome::kWithdrawn:
      return fmt::format("Your sandbox does not wait for access to {} any more{}.", what, why);
    case AccessOutcome::kFailed:
      return fmt::format("A person has allowed your sandbox to reach {}, and that cannot be{}.",
                         what, why);
  }
  return {};
}

// Which file the bytes of a block came from is for people. A provider refuses what it does not
// know.
std::string without_names_of_files(const std::string& content) {
  constexpr const char* kName = "file_id";
  if (!content.contains(R"("file_id":)")) return content;
  auto blocks = parse_json(content, {.depth = 128, .bytes = std::size_t{64} << 20});
  if (!blocks || !blocks->is_array()) return content;
  for (Json& block : *blocks) {
    if (!block.is_object()) continue;
    if (const auto source = block.find("source"); source != block.end() && source->is_object())
      source->erase(kName);
  }
  return dump_json(*blocks);
}

bool is_waited_for(const State& state, Seq asked, Purpose purpose) {
  return state.asked && state.asked->seq == asked && state.asked->purpose == purpose;
}

std::string text_at(const Json& block, const char* key) {
  const auto found = block.find(key);
  return found != block.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Text of all text blocks.
std::string text_of(const Json& blocks) {
  std::string text;
  for (const Json& block : blocks) {
    if (!block.is_object() || text_at(block, "type") != "text") continue;
    if (!text.empty()) text += "\n\n";
    text += text_at(block, "text");
  }
  return text;
}

Json blocks_of(std::string_view content) {
  auto parsed = parse_json(content, {.depth = 128, .bytes = std::size_t{64} << 20});
  return parsed && parsed->is_array() ? std::move(*parsed) : Json::array();
}

// What others may see of an answer. Where it lost its shape with what was taken out of it, nothing.
struct Shown {
  bool is_less = false;
  Json blocks = Json::array();

  const Json* find(std::size_t block, const char* key) const {
    if (block >= blocks.size() || !blocks[block].is_object()) return nullptr;
    const auto found = blocks[block].find(key);
    return found == blocks[block].end() ? nullptr : &*found;
  }
  std::string name_at(std::size_t block) const {
    const Json* name = find(block, "name");
    return name != nullptr && name->is_string() ? name->get<std::string>() : "withheld";
  }
  std::string input_at(std::size_t block) const {
    const Json* input = find(block, "input");
    return input == nullptr ? R"("withheld")" : dump_json(*input);
  }
};

void take_calls(State& state, const Json& blocks, const Shown& shown) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Json& block = blocks[i];
    if (!block.is_object() || text_at(block, "type") != "tool_use") continue;
    const auto input = block.find("input");
    std::string name = text_at(block, "name");
    state.calls.push_back({.block = static_cast<std::int64_t>(i),
                           .tool_use_id = text_at(block, "id"),
                           .name = name,
                           .input = input == block.end() ? "{}" : dump_json(*input),
                           .shown_name = shown.is_less ? shown.name_at(i) : std::move(name),
                           .shown_input = shown.is_less ? shown.input_at(i) : std::string()});
  }
}

// Where a command goes that names no sandbox: to the one that the same answer provisioned before
// it, even when that came to nothing, or to the last one. Settled when it is begun: begun again, it
// must not go elsewhere.
std::string sandbox_for(const State& state, const Call& command) {
  const Call* provision = nullptr;
  for (const Call& call : state.calls) {
    if (&call == &command) break;
    if (call.name == kProvision) provision = &call;
  }
  if (provision == nullptr) return state.last_sandbox;
  for (const auto& [id, sandbox] : state.sandboxes)
    if (sandbox.call == provision->seq) return id;
  return {};
}

constexpr std::string_view kEmptyList = "[]";

WaitsFor whom_after_decision(const AgentSpec& agent, std::string_view tool) {
  return tool == kAskHuman || is_done_outside(agent, tool) ? WaitsFor::kResult : WaitsFor::kNobody;
}

}  // namespace

WaitsFor whom_it_waits_for(const State& state, std::string_view tool) {
  if (const ServerTool* remote = state.find_server_tool(tool))
    return remote->asks ? WaitsFor::kDecision : WaitsFor::kNobody;
  const AgentSpec& agent = state.agent;
  const bool asks = std::ranges::find(agent.asks, tool) != agent.asks.end();
  return asks ? WaitsFor::kDecision : whom_after_decision(agent, tool);
}

namespace {

void forget_trouble(State& state) {
  state.failures = 0;
  state.trouble.reset();
  state.trouble_message.clear();
  state.wake_at_ms.reset();
}

void note_checkpoint(std::vector<std::string>& checkpoints, const std::string& name) {
  checkpoints.push_back(name);
  if (checkpoints.size() > kCheckpointsMax) checkpoints.erase(checkpoints.begin());
}

struct Folding {
  State& state;
  const StoredEvent& stored;

  void operator()(const Created& event) const {
    state.agent = event.agent;
    state.parent = event.parent;
    state.parent_call = event.parent_call;
    state.has_read_untrusted = event.untrusted;
    state.node = event.node;
  }

  void operator()(const UserMessage& event) const {
    if (!event.dedupe.empty() && !state.dedupe.emplace(event.dedupe, stored.seq).second) return;
    state.unread.push_back(event);
    state.unread.back().content = without_names_of_files(event.content);
    open_turn();
  }

  void operator()(const OutcomeDefined& event) const {
    if (state.outcome && state.turn_open) return;
    if (!state.dedupe.emplace(event.id, stored.seq).second) return;
    state.outcome = Outcome{.wish = event};
    state.unread.push_back({.content = write_outcome(event), .dedupe = {}});
    open_turn();
  }

  void operator()(const OutcomeGraded& event) const {
    if (!is_waited_for(state, event.asked, Purpose::kGrade)) return;
    state.asked.reset();
    forget_trouble(state);
    state.usage += event.usage;
    if (!state.outcome) return;
    state.last_stop = "end_turn";
    if (event.verdict != Verdict::kNeedsRevision) return state.outcome.reset();
    const bool is_last = ++state.outcome->iteration >= state.outcome->wish.iterations_max;
    state.unread.push_back(
        {.content = write_revision(event.explanation, is_last), .dedupe = {}, .of_system = true});
    state.asked_this_turn = 0;
    if (is_last) state.outcome.reset();
  }

  void operator()(const UserAnswer& event) const {
    Call* call = open_call(event.call);
    if (call == nullptr || call->name != kAskHuman) return;
    call->ended = true;
    call->result = event.text;
  }

  void operator()(const UserDecision& event) const {
    if (AccessWait* access = open_access(event.call)) {
      access->decision = event;
      return;
    }
    Call* call = open_call(event.call);
    if (call == nullptr || call->waits_for != WaitsFor::kDecision) return;
    call->waits_for =
        event.allowed ? whom_after_decision(state.agent, call->name) : WaitsFor::kNobody;
    if (event.allowed) return;
    call->ended = call->is_error = true;
    call->result = event.message.empty()
                       ? "The user did not allow this. Nothing was done."
                       : "The user did not allow this, and nothing was done: " + event.message;
  }

  void operator()(const UserToolResult& event) const {
    Call* call = open_call(event.call);
    if (call == nullptr || call->waits_for != WaitsFor::kResult || call->name == kAskHuman) return;
    call->ended = true;
    call->is_error = event.is_error;
    call->result_blocks =
        event.content.size() > kEmptyList.size() ? without_names_of_files(event.content) : "";
    state.has_read_untrusted = true;
  }

  void operator()(const AgentChanged& event) const {
    const bool is_budget_new = event.agent.budget_nano != state.agent.budget_nano ||
                               event.agent.budget_tokens != state.agent.budget_tokens;
    state.agent = event.agent;
    state.equipped_turn = 0;  // its servers may be others now
    // A turn that ended for want of money goes on as soon as there is some.
    if (!is_budget_new || state.ended != EndReason::kBudgetReached || state.is_budget_spent())
      return;
    open_turn();
    const bool has_answer =
        !state.messages.empty() && state.messages.back().role == Message::Role::kAssistant;
    if (state.outcome && state.calls.empty() && has_answer) state.last_stop = "end_turn";
  }

  void operator()(const AccessAsked& event) const {
    if (!state.access_asked.emplace(event.request, stored.seq).second) return;
    state.access.push_back({.seq = stored.seq,
                            .request = event.request,
                            .host = event.host,
                            .port = event.port,
                            .node = event.node,
                            .decision = std::nullopt});
    open_turn();
  }

  void operator()(const AccessEnded& event) const {
    const auto access = std::ranges::find(state.access, event.request, &AccessWait::request);
    if (access == state.access.end()) return;
    const Json block = {{"type", "text"}, {"text", describe_end(*access, event)}};
    state.unread.push_back(
        {.content = dump_json(Json::array({block})), .dedupe = {}, .of_system = true});
    state.access.erase(access);
  }

  void operator()(const ThreadChanged& event) const {
    Call* call = open_call(event.call);
    if (call == nullptr || call->name != kSpawnAgent || event.seen <= call->thread.seen) return;
    call->thread = event;
    call->thread.posted.clear();
  }

  void operator()(const Updated& event) const {
    state.updates = std::max(state.updates, event.number);
  }
  void operator()(const ThreadArchived& event) const {
    state.archived_threads.emplace(event.call, stored.seq);
  }
  void operator()(const Archived&) const {}

  void operator()(const AgentCharged& event) const {
    if (state.charged.emplace(event.agent, stored.seq).second) state.usage += event.usage;
  }

  void operator()(const ModelCharged& event) const {
    if (state.unpaid.erase(event.question) > 0) state.usage += event.usage;
  }

  void operator()(const Interrupted&) const {
    if (state.turn_open) state.interrupted = true;
  }

  void operator()(const TimerFired&) const { state.wake_at_ms.reset(); }

  void operator()(const Resumed& event) const {
    if (state.asked) {
      if (event.unpaid) state.unpaid.emplace(question_name(*state.asked), state.asked->at_ms);
      state.asked->again += 1;
    }
    if (event.node == state.node) return;
    state.node = event.node;
    state.moves += 1;
    std::erase_if(state.sandboxes,
                  [&](const auto& sandbox) { return sandbox.second.node != event.node; });
  }

  void operator()(const ServerTrouble&) const {}
  void operator()(const Equipping&) const { state.equipping = stored.seq; }

  void operator()(const Equipped& event) const {
    if (state.equipping != event.asked) return;
    state.equipping.reset();
    state.equipped_turn = state.turn;
    if (!event.notes.empty()) state.notes = event.notes;
    if (!event.same_tools) state.server_tools = event.tools;
  }

  void operator()(const ModelAsked& event) const {
    if (state.asked) return;
    if (std::string content = next_user_content(state, event.purpose);
        !content.empty() && event.purpose != Purpose::kGrade)
      state.messages.push_back({Message::Role::kUser, std::move(content)});
    if (event.purpose == Purpose::kReply) state.unread.clear();
    state.calls.clear();
    state.last_stop.clear();
    state.trouble.reset();
    state.wake_at_ms.reset();
    state.asked_this_turn += 1;
    state.asked = Asked{.seq = stored.seq, .purpose = event.purpose, .at_ms = stored.at_ms};
    state.last_purpose = event.purpose;
    state.last_asked = stored.seq;
  }

  void operator()(const ModelAnswered& event) const {
    if (!is_waited_for(state, event.asked, Purpose::kReply)) return;
    state.asked.reset();
    forget_trouble(state);
    const Json blocks = blocks_of(event.content);
    if (!blocks.empty()) state.messages.push_back({Message::Role::kAssistant, dump_json(blocks)});
    Shown shown{.is_less = !event.shown.empty()};
    if (shown.is_less) shown.blocks = blocks_of(event.shown);
    take_calls(state, blocks, shown);
    state.last_stop = event.stop_reason.empty() ? "end_turn" : event.stop_reason;
    state.said = text_of(shown.is_less ? shown.blocks : blocks);
    state.said_redacted = event.redacted;
    state.usage += event.usage;
    state.context_used = event.usage.all_tokens();
    state.just_summarised = false;
  }

  void operator()(const ContextSummarised& event) const {
    if (!is_waited_for(state, event.asked, Purpose::kSummary)) return;
    state.asked.reset();
    forget_trouble(state);
    state.messages = {summary_message(event.summary)};
    state.usage += event.usage;
    state.context_used = 0;
    state.too_long = false;
    state.summary_cuts = 0;
    state.just_summarised = true;
  }

  void operator()(const ModelFailed& event) const {
    if (!state.asked || state.asked->seq != event.asked) return;
    const Asked asked = *std::exchange(state.asked, std::nullopt);
    state.usage += event.usage;
    if (event.unpaid) state.unpaid.emplace(question_name(asked), asked.at_ms);
    if (event.trouble == Trouble::kInterrupted) return;
    state.failures += 1;
    state.trouble = event.trouble;
    state.trouble_message = event.message;
    if (event.trouble == Trouble::kPassing) state.wake_at_ms = stored.at_ms + event.wait_ms;
    if (event.trouble == Trouble::kTooLong) state.too_long = true;
    if (event.trouble == Trouble::kTooLong && asked.purpose == Purpose::kSummary)
      state.summary_cuts += 1;
  }

  void operator()(const ToolCalled& event) const {
    for (Call& call : state.calls)
      if (call.seq == 0 && call.block == event.block) {
        call.seq = stored.seq;
        call.sandbox = sandbox_for(state, call);
        call.waits_for = whom_it_waits_for(state, call.name);
        if (const ServerTool* remote = state.find_server_tool(call.name)) {
          call.server = remote->server;
          call.server_name = remote->name;
        }
        return;
      }
  }

  void operator()(const ToolEnded& event) const {
    Call* call = open_call(event.call);
    if (call == nullptr) return;
    call->ended = true;
    call->is_error = event.is_error;
    call->result = event.text;
    state.has_read_untrusted |= event.untrusted;
    state.usage += event.usage;
    if (const auto sandbox = state.sandboxes.find(event.sandbox);
        sandbox != state.sandboxes.end() && !event.checkpoint.empty())
      note_checkpoint(sandbox->second.checkpoints, event.checkpoint);
  }

  void operator()(const SandboxBound& event) const {
    const std::string& name = event.known_as.empty() ? event.sandbox : event.known_as;
    state.sandboxes[name] = {.id = event.sandbox,
                             .sandbox_template = event.sandbox_template,
                             .call = event.call,
                             .kept = event.kept,
                             .checkpoints = {},
                             .node = event.node};
    state.last_sandbox = name;
  }

  void operator()(const SandboxReleased& event) const {
    std::erase_if(state.sandboxes,
                  [&](const auto& sandbox) { return sandbox.second.id == event.sandbox; });
  }

  void operator()(const Said&) const {
    state.said.clear();
    state.said_redacted.clear();
  }

  void operator()(const Forked&) const {
    for (Call& call : state.calls)
      if (!call.ended) {
        call.ended = call.is_error = true;
        call.result = "interrupted: it was under way when this conversation was copied";
      }
    state.access.clear();
    state.unpaid.clear();  // the other's, who is told
    state.sandboxes.clear();
    state.last_sandbox.clear();
    state.said.clear();
    state.said_redacted.clear();
    (*this)(TurnEnded{.reason = EndReason::kInterrupted});
  }

  void operator()(const TurnEnded& event) const {
    state.turn_open = false;
    state.interrupted = false;
    state.access.clear();
    state.asked.reset();
    state.equipping.reset();
    state.last_stop.clear();
    state.ended = event.reason;
    // It is given up, unless the session goes on by itself when there is money again.
    if (event.reason != EndReason::kBudgetReached) state.outcome.reset();
    forget_trouble(state);
  }

 private:
  void open_turn() const {
    if (state.turn_open) return;
    state.turn_open = true;
    state.ended.reset();
    state.turn += 1;
    state.asked_this_turn = 0;
    state.summary_cuts = 0;
    forget_trouble(state);
  }

  AccessWait* open_access(Seq seq) const {
    const auto found = std::ranges::find_if(state.access, [seq](const AccessWait& access) {
      return access.seq == seq && !access.decision;
    });
    return found == state.access.end() ? nullptr : &*found;
  }

  Call* open_call(Seq seq) const {
    const auto found = std::ranges::find_if(
        state.calls, [seq](const Call& call) { return call.is_open() && call.seq == seq; });
    return found == state.calls.end() ? nullptr : &*found;
  }
};

}  // namespace

// The clock may jump: back is no time at all.
void fold(State& state, const StoredEvent& stored) {
  if (status_of(state) == Status::kRunning)
    state.active_ms = std::min(
        state.active_ms + std::max<std::int64_t>(0, stored.at_ms - state.at_ms), kNumberMax);
  state.at_ms = stored.at_ms;
  state.head = stored.seq;
  std::visit(Folding{state, stored}, stored.event);
}

State fold(State state, const std::vector<StoredEvent>& events) {
  for (const StoredEvent& event : events) fold(state, event);
  return state;
}

std::string question_name(const Asked& asked) {
  return asked.again == 0 ? fmt::format("{}", asked.seq)
                          : fmt::format("{}.{}", asked.seq, asked.again);
}

bool State::has_sandbox(std::string_view id) const {
  return std::ranges::any_of(sandboxes,
                             [id](const auto& sandbox) { return sandbox.second.id == id; });
}

const Call* State::find_call(Seq seq) const {
  const auto found =
      std::ranges::find_if(calls, [seq](const Call& call) { return call.seq == seq && seq != 0; });
  return found == calls.end() ? nullptr : &*found;
}

const AccessWait* State::find_access(Seq seq) const {
  const auto found = std::ranges::find(access, seq, &AccessWait::seq);
  return found == access.end() ? nullptr : &*found;
}

const AccessWait* State::find_access(std::string_view request) const {
  const auto found = std::ranges::find(access, request, &AccessWait::request);
  return found == access.end() ? nullptr : &*found;
}

const ServerTool* State::find_server_tool(std::string_view alias) const {
  const auto found = std::ranges::find(server_tools, alias, &ServerTool::alias);
  return found == server_tools.end() ? nullptr : &*found;
}

bool State::is_budget_spent() const {
  return (agent.budget_nano > 0 && usage.cost_nano >= agent.budget_nano) ||
         (agent.budget_tokens > 0 && usage.all_tokens() >= agent.budget_tokens);
}

Status status_of(const State& state) {
  if (!state.turn_open) return Status::kIdle;
  if (state.wake_at_ms) return Status::kRescheduled;
  if (state.asked || state.equipping) return Status::kRunning;
  bool asks = false;
  bool asks_in_thread = false;
  bool asks_for_access = false;
  bool works = false;
  for (const AccessWait& access : state.access) (access.decision ? works : asks_for_access) = true;
  if (works) return Status::kRunning;
  for (const Call& call : state.calls) {
    if (!call.is_open()) continue;
    const bool is_thread_waiting = call.thread.status == ThreadStatus::kWaits;
    const bool runs = call.waits_for == WaitsFor::kNobody && !is_thread_waiting;
    (runs ? works : is_thread_waiting ? asks_in_thread : asks) = true;
  }
  // What runs may be the very program that waits for an answer.
  if (works) return asks_for_access ? Status::kWaitsAtWork : Status::kRunning;
  if (asks_in_thread) return Status::kWaitsInThread;
  return asks || asks_for_access ? Status::kWaitsForPerson : Status::kRunning;
}

Status shown_status_of(const State& state) {
  const Status status = status_of(state);
  const bool is_waiting = is_for_people(status);
  const bool are_all_begun =
      std::ranges::none_of(state.calls, [](const Call& call) { return call.seq == 0; });
  return is_waiting && !are_all_begun ? Status::kRunning : status;
}

std::string_view name_of(Status status) {
  switch (status) {
    case Status::kIdle:
      return "idle";
    case Status::kRunning:
      return "running";
    case Status::kWaitsForPerson:
      return "waits_for_person";
    case Status::kRescheduled:
      return "rescheduled";
    case Status::kWaitsInThread:
      return "waits_in_thread";
    case Status::kWaitsAtWork:
      return "waits_at_work";
  }
  return "";
}

}  // namespace pons::session
