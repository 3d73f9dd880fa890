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
  std::string server;       // of somebody else, that is asked for it; empty: none
  std::string server_name;  // what it is called there
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
  std::int64_t at_ms = 0;  // by the log
  std::int64_t again = 0;  // how often it was asked anew by a process that had no answer to it
  bool operator==(const Asked&) const = default;
};

// By which its session knows a question for as long as nobody has said what it came to. Each time
// that one is asked anew is another.
std::string question_name(const Asked& asked);

// What the session works toward, turn after turn of the model, until somebody says it is there.
struct Outcome {
  OutcomeDefined wish;
  std::int64_t iteration = 0;  // the first is 0
  bool operator==(const Outcome&) const = default;
};

// A wish of a program in one of its sandboxes, until it is over.
struct AccessWait {
  Seq seq = 0;  // of its AccessAsked
  std::string request;
  std::string host;
  std::int64_t port = 0;
  std::string node;
  std::optional<UserDecision> decision;  // of a person, that is carried out now
  bool operator==(const AccessWait&) const = default;
};
// More do not wait for people at once.
inline constexpr std::size_t kAccessWaitsMax = 16;

// A log that is longer is read no more. It stays well below: from the first number on a session
// does nothing more by itself and takes nothing from people, from the second on nothing at all.
inline constexpr Seq kEventsOfWorkMax = 1'000'000;
inline constexpr Seq kEventsTakenMax = 1'050'000;
inline constexpr Seq kEventsReadMax = 1'200'000;

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
  std::optional<Seq> equipping;    // and not equipped yet
  std::int64_t equipped_turn = 0;  // the last one that began with it; 0: none
  std::string notes;               // of its memory, that the model reads first
  std::vector<ServerTool> server_tools;
  bool has_read_untrusted = false;  // words that came from outside are in the conversation
  std::vector<Call> calls;          // of the last answer, in its order
  std::string last_stop;            // of the last answer; empty: it has been dealt with
  std::string said;                 // by it, to be told to the outside
  std::vector<std::string> said_redacted;

  std::int64_t failures = 0;  // of the model, in a row
  std::optional<Trouble> trouble;
  std::string trouble_message;
  std::optional<std::int64_t> wake_at_ms;  // the next try is not before

  std::map<std::string, Sandbox> sandboxes;  // by the id that the conversation knows
  std::string last_sandbox;                  // bound last; may be gone

  std::optional<Outcome> outcome;

  std::vector<AccessWait> access;           // what people are asked to allow, oldest first
  std::map<std::string, Seq> access_asked;  // requests that must not come twice

  std::int64_t at_ms = 0;      // of the last event
  std::int64_t active_ms = 0;  // that it was at work, which it is not while it waits for people

  Usage usage;
  std::int64_t updates = 0;             // of a client, that it has heard of
  std::map<Seq, Seq> archived_threads;  // by the calls that their agents did
  std::map<std::string, Seq> charged;   // agents whose use was counted after their calls had ended
  std::map<std::string, std::int64_t> unpaid;  // questions that may have cost something, by their
                                               // names: when they were asked
  std::int64_t context_used = 0;   // tokens that the conversation had when it was last sent
  bool too_long = false;           // the model said so
  std::int64_t summary_cuts = 0;   // how often even what was to be summarised was too long
  bool just_summarised = false;    // and no answer since
  std::optional<EndReason> ended;  // how the last turn did

  const Call* find_call(Seq seq) const;
  const AccessWait* find_access(Seq seq) const;
  const AccessWait* find_access(std::string_view request) const;
  const ServerTool* find_server_tool(std::string_view alias) const;
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
  kWaitsAtWork,    // for people, while something that it does goes on
};
std::string_view name_of(Status status);
Status status_of(const State& state);
// The same between the events of one commit, where some calls of an answer are not begun yet.
Status shown_status_of(const State& state);
// Somebody has to do something.
constexpr bool is_for_people(Status status) {
  return status == Status::kWaitsForPerson || status == Status::kWaitsInThread ||
         status == Status::kWaitsAtWork;
}
// It waits for nobody but people: no process has to have it.
constexpr bool is_at_rest(Status status) {
  return status == Status::kIdle || status == Status::kWaitsForPerson;
}

}  // namespace pons::session
