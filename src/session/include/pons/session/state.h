#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pons/session/event.h"

namespace pons::session {

// One message of the conversation as the model sees it. Copies share what it says, so that copying
// a state costs little however long the conversation is.
struct Message {
  enum class Role : std::uint8_t { kUser, kAssistant } role;
  std::shared_ptr<const std::string> content;  // JSON: a list of blocks

  Message(Role who, std::string blocks)
      : role(who), content(std::make_shared<const std::string>(std::move(blocks))) {}
  bool operator==(const Message& other) const {
    return role == other.role && *content == *other.content;
  }
};

// Whom a call that was begun waits for. What waits for nobody is done by the session itself.
enum class WaitsFor : std::uint8_t { kNobody, kDecision, kResult };

// A tool that the last answer asks for.
struct Call {
  std::int64_t block = 0;
  std::string tool_use_id;
  std::string name;
  std::string input;
  std::string shown_name;   // what others may see of it
  std::string shown_input;  // empty: all of it
  std::string sandbox;      // that a command without a sandbox of its own goes to, once it is begun
  Seq seq = 0;              // of its ToolCalled; 0: not begun
  bool ended = false;
  bool is_error = false;
  std::string result;
  std::string result_blocks;  // JSON: what stands for the result when it is more than text
  WaitsFor waits_for = WaitsFor::kNobody;
  ThreadChanged thread = {};  // how far the agent is that does it
  bool is_open() const { return seq != 0 && !ended; }
  bool operator==(const Call&) const = default;
};

struct Sandbox {
  std::string id;
  std::string sandbox_template;
  Seq call = 0;  // that brought it
  bool kept = false;
  std::vector<std::string> checkpoints;  // oldest first; of many, the last ones
  std::string node = {};                 // on which it is
  bool operator==(const Sandbox&) const = default;
};

struct Asked {
  Seq seq = 0;
  Purpose purpose = Purpose::kReply;
  bool operator==(const Asked&) const = default;
};

// What the session works toward, turn after turn of the model, until somebody says it is there.
struct Outcome {
  OutcomeDefined wish;
  std::int64_t iteration = 0;  // the first is 0
  bool operator==(const Outcome&) const = default;
};

// A sandbox's older checkpoints are given up: each of them is a layer under its files.
inline constexpr std::size_t kCheckpointsMax = 8;

// What a session's events add up to. Holds what the next decision needs, not what happened.
struct State {
  Seq head = 0;  // of the last event; 0: there is no session
  AgentSpec agent;
  std::string parent;
  Seq parent_call = 0;
  std::string node;        // that has it; empty: there is only one
  std::int64_t moves = 0;  // from one to another

  std::vector<Message> messages;
  std::vector<UserMessage> unread;    // since the model was asked last
  std::map<std::string, Seq> dedupe;  // messages that must not come twice

  bool turn_open = false;
  bool interrupted = false;
  std::int64_t turn = 0;
  std::int64_t asked_this_turn = 0;
  std::optional<Asked> asked;              // and no answer yet
  Purpose last_purpose = Purpose::kReply;  // of the question before, answered or not
  Seq last_asked = 0;
  std::vector<Call> calls;  // of the last answer, in its order
  std::string last_stop;    // of the last answer; empty: it has been dealt with
  std::string said;         // by it, to be told to the outside
  std::vector<std::string> said_redacted;

  std::int64_t failures = 0;  // of the model, in a row
  std::optional<Trouble> trouble;
  std::string trouble_message;
  std::optional<std::int64_t> wake_at_ms;  // the next try is not before

  std::map<std::string, Sandbox> sandboxes;  // by the id that the conversation knows
  std::string last_sandbox;                  // bound last; may be gone

  std::optional<Outcome> outcome;

  Usage usage;
  std::int64_t context_used = 0;   // tokens that the conversation had when it was last sent
  bool too_long = false;           // the model said so
  bool just_summarised = false;    // and no answer since
  std::optional<EndReason> ended;  // how the last turn did

  const Call* find_call(Seq seq) const;
  bool has_sandbox(std::string_view id) const;
  bool is_budget_spent() const;
  bool operator==(const State&) const = default;
};

// For lists and for people.
enum class Status : std::uint8_t {
  kIdle,
  kRunning,
  kWaitsForPerson,
  kRescheduled,
  kWaitsInThread,  // for people, who answer an agent of its own: it has to hear of that
};
std::string_view name_of(Status status);
Status status_of(const State& state);
// The same between the events of one commit, where some calls of an answer are not begun yet.
Status shown_status_of(const State& state);
// It waits for nobody but people: no process has to have it.
constexpr bool is_at_rest(Status status) {
  return status == Status::kIdle || status == Status::kWaitsForPerson;
}

}  // namespace pons::session
