#include "pons/session/decide.h"

#include <algorithm>

#include <fmt/format.h>

#include "budget_share.h"
#include "pons/base/check.h"
#include "pons/session/conversation.h"
#include "pons/session/fold.h"
#include "pons/session/tools.h"

namespace pons::session {

namespace {

// A model that fails so often in a row is not asked again by itself.
constexpr std::int64_t kFailuresMax = 8;
// The part of the window that a conversation may fill before it is summarised.
constexpr std::int64_t kFullPercent = 80;
constexpr std::string_view kFullOfEvents =
    "the session has as many events as one may have; go on in a new one";
// Each time, half as much of the conversation is to be summarised.
constexpr std::int64_t kSummaryCutsMax = 5;

void end_turn(const State& state, EndReason reason, std::vector<Command>& out) {
  for (const auto& [name, sandbox] : state.sandboxes)
    if (!sandbox.kept) out.emplace_back(ReleaseSandbox{sandbox.id});
  out.emplace_back(EndTurn{reason});
}

std::optional<std::string> refusal_of(const State& state, const Call& call, std::size_t before);

// A person said stop: nothing is waited for any more.
std::vector<Command> wind_up(const State& state) {
  std::vector<Command> out;
  if (!state.said.empty()) out.emplace_back(Say{});
  if (state.asked) out.emplace_back(DropQuestion{state.asked->seq});
  for (const AccessWait& access : state.access)
    out.emplace_back(DropAccess{access.request, "the user interrupted"});
  for (std::size_t i = 0; i < state.calls.size(); ++i) {
    const Call& call = state.calls[i];
    if (call.is_open()) out.emplace_back(DropCall{call.seq});
    if (call.seq == 0) out.emplace_back(RefuseCall{i, *refusal_of(state, call, 0)});
  }
  end_turn(state, EndReason::kInterrupted, out);
  return out;
}

// What ran on another node is lost, and its sandboxes with it.
void drop_left_behind(const State& state, std::vector<Command>& out) {
  for (const AccessWait& access : state.access)
    if (access.node != state.node)
      out.emplace_back(DropAccess{access.request, "its machine is lost"});
}

bool has_unended_calls(const State& state) {
  return std::ranges::any_of(state.calls, [](const Call& call) { return !call.ended; });
}

// A person is asked nothing that is no question; whoever runs the other tools reads their
// arguments.
Result<void> question_of(const Call& call) {
  if (call.name == kAskHuman) TRY_VOID(read_question(call.input));
  return {};
}

void begin_calls(const State& state, std::vector<Command>& out) {
  bool sandbox_to_come = false;  // of an earlier call of the same answer
  std::size_t threads = 0;       // likewise
  for (std::size_t i = 0; i < state.calls.size(); ++i) {
    const Call& call = state.calls[i];
    if (call.seq == 0) {
      if (auto refusal = refusal_of(state, call, threads))
        out.emplace_back(RefuseCall{i, std::move(*refusal)});
      else if (!sandbox_to_come || !takes_last_sandbox(call.name, call.input))
        out.emplace_back(BeginCall{i});
    }
    if (call.name == kSpawnAgent && !call.ended) ++threads;
    if (call.name == kProvision && !call.ended) sandbox_to_come = true;
  }
}

bool is_full(const State& state) {
  // A harness sees to that itself.
  if (!state.agent.harness.empty()) return state.too_long;
  return state.too_long || state.context_used * 100 > state.agent.context_tokens * kFullPercent;
}

// The agent has nothing more to do or to read: somebody else looks at what it did. Again, when that
// came to nothing.
bool is_to_be_graded(const State& state) {
  if (!state.outcome || !state.calls.empty() || !state.unread.empty()) return false;
  return state.trouble ? state.last_purpose == Purpose::kGrade
                       : !state.last_stop.empty() && state.last_stop != "pause_turn";
}

// What it knows is looked up once; servers may offer something else in each turn.
bool lacks_equipment(const State& state) {
  if (!state.agent.servers.empty()) return state.equipped_turn != state.turn;
  return !state.agent.memory.empty() && state.equipped_turn == 0;
}

void ask_model(const State& state, std::vector<Command>& out) {
  if (state.head >= kEventsOfWorkMax) return end_turn(state, EndReason::kCallLimit, out);
  if (state.is_budget_spent()) return end_turn(state, EndReason::kBudgetReached, out);
  if (state.asked_this_turn >= state.agent.calls_per_turn)
    return end_turn(state, EndReason::kCallLimit, out);
  if (lacks_equipment(state)) {
    out.emplace_back(Equip{});
    return;
  }
  const bool is_grade = is_to_be_graded(state);
  const bool is_summary = !is_grade && is_full(state) && !state.messages.empty();
  out.emplace_back(AskModel{.purpose = is_grade     ? Purpose::kGrade
                                       : is_summary ? Purpose::kSummary
                                                    : Purpose::kReply,
                            .attempt = state.failures + 1});
}

// What was too long is summarised, and of that, too, as much as it takes is left out.
bool can_be_shorter(const State& state) {
  switch (state.last_purpose) {
    case Purpose::kReply:
      return !state.just_summarised && state.messages.size() > 1;
    case Purpose::kSummary:
      return state.summary_cuts < kSummaryCutsMax;
    case Purpose::kGrade:
      return false;
  }
  return false;
}

void go_on_after_trouble(const State& state, std::vector<Command>& out) {
  switch (*state.trouble) {
    case Trouble::kPassing:
      if (state.failures > kFailuresMax) return end_turn(state, EndReason::kRetriesExhausted, out);
      return ask_model(state, out);
    case Trouble::kTooLong:  // also of what a summary has made short: then nothing helps
      if (can_be_shorter(state)) return ask_model(state, out);
      return end_turn(state, EndReason::kModelFailed, out);
    case Trouble::kBudget:
      return end_turn(state, EndReason::kBudgetReached, out);
    case Trouble::kLasting:
    case Trouble::kInterrupted:
      return end_turn(state, EndReason::kModelFailed, out);
  }
}

// Everything that the last answer asked for is done.
void go_on(const State& state, std::vector<Command>& out) {
  if (state.trouble) return go_on_after_trouble(state, out);
  const bool has_news = !state.calls.empty() || !state.unread.empty();
  if (has_news || state.last_stop.empty() || state.last_stop == "pause_turn")
    return ask_model(state, out);
  if (state.last_stop == "max_tokens") return end_turn(state, EndReason::kAnswerCutOff, out);
  if (state.last_stop == "refusal") return end_turn(state, EndReason::kRefusal, out);
  if (state.outcome) return ask_model(state, out);
  end_turn(state, EndReason::kEndTurn, out);
}

struct Writing {
  const State& state;

  std::vector<Event> operator()(const Equip&) const { return {Equipping{}}; }
  std::vector<Event> operator()(const AskModel& command) const {
    return {ModelAsked{.purpose = command.purpose,
                       .attempt = command.attempt,
                       .digest = digest_of(state, command.purpose)}};
  }
  std::vector<Event> operator()(const BeginCall& command) const {
    ToolCalled event = called(state.calls[command.index]);
    event.asks = whom_it_waits_for(state, state.calls[command.index].name) == WaitsFor::kDecision;
    return {std::move(event)};
  }
  std::vector<Event> operator()(const DropCall& command) const {
    return {ToolEnded{.call = command.call,
                      .outcome = ToolOutcome::kInterrupted,
                      .is_error = true,
                      .text = "The user interrupted this. It may have run, wholly or in part; look "
                              "before you run it again."}};
  }
  std::vector<Event> operator()(const DropAccess& command) const {
    return {AccessEnded{
        .request = command.request, .outcome = AccessOutcome::kWithdrawn, .message = command.why}};
  }
  std::vector<Event> operator()(const DropQuestion& command) const {
    return {ModelFailed{.asked = command.asked,
                        .trouble = Trouble::kInterrupted,
                        .message = "interrupted",
                        .unpaid = true}};
  }
  std::vector<Event> operator()(const RefuseCall& command) const {
    return {called(state.calls[command.index]), ToolEnded{.call = state.head + 1,
                                                          .outcome = ToolOutcome::kRefused,
                                                          .is_error = true,
                                                          .text = command.why}};
  }
  std::vector<Event> operator()(const Say&) const {
    return {Said{.text = state.said, .redacted = state.said_redacted}};
  }
  std::vector<Event> operator()(const ReleaseSandbox& command) const {
    return {SandboxReleased{command.sandbox}};
  }
  std::vector<Event> operator()(const EndTurn& command) const {
    const bool is_full = state.head >= kEventsOfWorkMax && command.reason == EndReason::kCallLimit;
    return {TurnEnded{.reason = command.reason,
                      .message = is_full ? std::string(kFullOfEvents) : state.trouble_message,
                      .active_ms = state.active_ms}};
  }

 private:
  ToolCalled called(const Call& call) const {
    return {.asked = state.last_asked,
            .block = call.block,
            .tool_use_id = call.tool_use_id,
            .name = call.shown_name,
            .input = call.input,
            .shown = call.shown_input};
  }
};

// `before`: agents that calls of the same answer before it were begun for.
std::optional<std::string> refusal_of(const State& state, const Call& call, std::size_t before) {
  if (state.interrupted) return "The user interrupted before this was run.";
  if (state.last_stop == "max_tokens")
    return "Your answer was cut off at its token limit; this was not run. Make it shorter.";
  if (is_own_call(state.agent, call.tool_use_id)) return std::nullopt;
  if (!is_allowed(state.agent, call.name) && state.find_server_tool(call.name) == nullptr)
    return "There is no tool of this name.";
  if (const auto question = question_of(call); !question) return question.error().message;
  if (call.name != kSpawnAgent) return std::nullopt;
  const auto task =
      state.agent.has_threads ? read_task(state.agent, call.input) : read_spawn(call.input);
  if (!task) return task.error().message;
  if (before >= kThreadsMax)
    return fmt::format("{} agents are at work for you already; wait for them.", kThreadsMax);
  if (!has_share(state, call, *task))
    return "Of your budget nothing is left that another agent could work with. Do it yourself, or "
           "say what is left to do.";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal_of(const State& state, const Call& call) {
  std::size_t before = 0;
  for (const Call& other : state.calls) {
    if (&other == &call) break;
    if (other.name == kSpawnAgent && !other.ended) ++before;
  }
  return refusal_of(state, call, before);
}

std::vector<Command> decide(const State& state) {
  if (!state.turn_open) return {};
  if (state.interrupted) return wind_up(state);
  std::vector<Command> out;
  if (!state.said.empty()) out.emplace_back(Say{});
  drop_left_behind(state, out);
  if (state.asked || state.wake_at_ms || state.equipping) return out;
  if (has_unended_calls(state))
    begin_calls(state, out);
  else if (state.access.empty())  // otherwise the agent goes on when people have decided
    go_on(state, out);
  return out;
}

std::vector<Event> events_of(const State& state, const Command& command) {
  return std::visit(Writing{state}, command);
}

void settle(State& state, std::int64_t at_ms, std::vector<StoredEvent>& out) {
  // Each round begins or ends something, and there is only so much to begin.
  constexpr int kRoundsMax = 1'000;
  for (int round = 0;; ++round) {
    CHECK(round < kRoundsMax);
    const std::vector<Command> commands = decide(state);
    if (commands.empty()) return;
    for (const Command& command : commands)
      for (Event& event : events_of(state, command)) {
        out.push_back({.seq = state.head + 1, .at_ms = at_ms, .event = std::move(event)});
        fold(state, out.back());
      }
  }
}

}  // namespace pons::session
