#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pons/base/result.h"

// A session is a log of these. Each is stored before anything is done because of it; what a session
// is at any moment is what its events add up to (fold.h).

namespace pons::session {

// Of an event in its session; the first is 1.
using Seq = std::int64_t;

// No number in an event is further from 0: sums of them fit.
inline constexpr std::int64_t kNumberMax = 1'000'000'000'000'000;

// A tool that is not of Pons: the model is told of it, and somebody outside does it.
struct CustomTool {
  std::string name;
  std::string definition;  // JSON: name, description, input_schema
  bool operator==(const CustomTool&) const = default;
};

struct AgentSpec;

// Agents that another may give tasks to, by their names. Copies share them: a state is copied
// often.
class Members {
 public:
  Members() = default;
  explicit Members(std::vector<AgentSpec> agents);
  const std::vector<AgentSpec>& all() const;
  const AgentSpec* find(std::string_view name) const;
  bool operator==(const Members& other) const;

 private:
  std::shared_ptr<const std::vector<AgentSpec>> agents_;  // null: none
};

// What a session works with, until it is told otherwise.
struct AgentSpec {
  std::string name = "default";
  std::string model;
  std::string system;  // in front of what Pons itself tells the model
  std::string sandbox_template = "host";
  std::string environment;         // network of its sandboxes; empty: none
  std::string network;             // or a policy of its own for them: JSON; empty: none
  std::vector<std::string> tools;  // names; empty: the four that every agent may have
  std::vector<std::string> asks;   // those of its tools that a person allows, call by call
  std::vector<CustomTool> custom = {};
  bool outside = false;                // tools of its machine are done by whoever follows it
  std::int64_t answer_tokens = 8'192;  // of one answer of the model
  std::int64_t context_tokens = 200'000;
  std::int64_t calls_per_turn = 100;  // of the model, until a person says something again
  std::int64_t budget_nano = 0;       // money for the whole session; 0: no limit of its own
  std::int64_t budget_tokens = 0;
  bool checkpoints = false;  // one after each command, so that a fork finds the files of then
  std::int64_t depth = 0;    // 0: a person's; 1: an agent's of that; …
  // Agents that it gives tasks to are threads of its session: whoever follows it sees them, answers
  // them, and they work on its machine. Otherwise they are like itself, and wait for nobody.
  bool has_threads = false;
  bool makes_members = false;  // it may describe an agent that is no member
  Members members = {};
  std::string description = {};  // for whoever may give it tasks
  std::string machine_of = {};   // the name of another session's machine, which it uses
  bool operator==(const AgentSpec&) const = default;
};

struct Usage {
  std::int64_t input = 0;  // read anew
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;
  std::int64_t output = 0;
  std::int64_t cost_nano = 0;
  std::int64_t all_tokens() const { return input + cache_read + cache_write + output; }
  Usage& operator+=(const Usage& other);  // never more than kNumberMax
  bool operator==(const Usage&) const = default;
};

// ---- what comes from outside

struct Created {
  AgentSpec agent;
  std::string parent;  // the session that wanted this one; empty: none
  Seq parent_call = 0;
  std::string node = {};  // which of the processes that share the store has it; empty: the only one
  bool operator==(const Created&) const = default;
};

struct UserMessage {
  std::string content;     // JSON: a list of content blocks, as in the Messages protocol
  std::string dedupe;      // a second one with the same is not a second one; empty: never
  bool of_system = false;  // from whoever runs the agent, not from whom it talks to
  bool operator==(const UserMessage&) const = default;
};

// To what ask_human asked.
struct UserAnswer {
  Seq call = 0;
  std::string text;
  bool operator==(const UserAnswer&) const = default;
};

// Whether a call may be done that a person has to allow.
struct UserDecision {
  Seq call = 0;
  bool allowed = false;
  std::string message;  // why not; may be empty
  bool operator==(const UserDecision&) const = default;
};

// What came of a call that is done outside.
struct UserToolResult {
  Seq call = 0;
  std::string content;  // JSON: a list of content blocks; may be empty
  bool is_error = false;
  bool operator==(const UserToolResult&) const = default;
};

// From now on the session works with this.
struct AgentChanged {
  AgentSpec agent;
  bool operator==(const AgentChanged&) const = default;
};

// What the session is to bring about, and how it is found out whether it has.
struct OutcomeDefined {
  std::string id;
  std::string description;
  std::string rubric;
  std::int64_t iterations_max = 1;
  bool operator==(const OutcomeDefined&) const = default;
};

struct Interrupted {
  bool operator==(const Interrupted&) const = default;
};

// A wait of the session's own is over.
struct TimerFired {
  bool operator==(const TimerFired&) const = default;
};

// The session goes on, in a process that has read its log: what was under way is begun again. On
// another node it goes on without the sandboxes of the last one.
struct Resumed {
  std::int64_t epoch = 0;
  std::string node = {};  // that has it from now on
  bool operator==(const Resumed&) const = default;
};

// Up to here the log is a copy of another session's. What was under way there is not, here.
struct Forked {
  std::string from;
  Seq at = 0;
  bool operator==(const Forked&) const = default;
};

// ---- what the session decides, written before it is done

// kGrade: somebody who has not done the work judges it by the outcome's rubric.
enum class Purpose : std::uint8_t { kReply, kSummary, kGrade };

struct ModelAsked {
  Purpose purpose = Purpose::kReply;
  std::int64_t attempt = 1;
  std::string digest;  // SHA-256 of what is sent
  bool operator==(const ModelAsked&) const = default;
};

// Its own number in the log is the call's id in this session.
struct ToolCalled {
  Seq asked = 0;
  std::int64_t block = 0;  // of the answer
  std::string tool_use_id;
  std::string name;
  std::string input;  // JSON
  std::string shown;  // what others may see of it when that is less; empty: all of it
  bool operator==(const ToolCalled&) const = default;
};

// To the world outside: what the model said, without what must not leave.
struct Said {
  std::string text;
  std::vector<std::string> redacted;  // names of the credentials that stood in it
  bool operator==(const Said&) const = default;
};

struct SandboxReleased {
  std::string sandbox;
  bool operator==(const SandboxReleased&) const = default;
};

enum class EndReason : std::uint8_t {
  kEndTurn,
  kInterrupted,
  kBudgetReached,
  kCallLimit,
  kAnswerCutOff,
  kRefusal,
  kRetriesExhausted,
  kModelFailed,
};
std::string_view name_of(EndReason reason);

struct TurnEnded {
  EndReason reason = EndReason::kEndTurn;
  std::string message;  // for people; may be empty
  bool operator==(const TurnEnded&) const = default;
};

// ---- what came of it

struct ModelAnswered {
  Seq asked = 0;
  std::string content;  // JSON: the blocks, as they came
  std::string shown;    // the same for others when they may see less; empty: the same
  std::vector<std::string> redacted;
  std::string stop_reason;  // of the Messages protocol
  std::string model;        // that answered
  Usage usage;
  std::int64_t first_ms = 0;  // until the first piece
  std::int64_t took_ms = 0;
  bool operator==(const ModelAnswered&) const = default;
};

// What was said so far, in short; from now on it stands for all of it. The log keeps the rest.
struct ContextSummarised {
  Seq asked = 0;
  std::string summary;
  std::string shown;  // the same for others when they may see less; empty: the same
  std::vector<std::string> redacted;
  Usage usage;
  std::int64_t took_ms = 0;
  bool operator==(const ContextSummarised&) const = default;
};

enum class Verdict : std::uint8_t { kSatisfied, kNeedsRevision, kFailed };
std::string_view name_of(Verdict verdict);

struct OutcomeGraded {
  Seq asked = 0;
  Verdict verdict = Verdict::kFailed;
  std::string explanation;
  std::string shown;  // the same for others when they may see less; empty: the same
  std::vector<std::string> redacted;
  Usage usage;
  std::int64_t took_ms = 0;
  bool operator==(const OutcomeGraded&) const = default;
};

enum class Trouble : std::uint8_t { kPassing, kLasting, kBudget, kTooLong, kInterrupted };
std::string_view name_of(Trouble trouble);

struct ModelFailed {
  Seq asked = 0;
  Trouble trouble = Trouble::kPassing;
  std::string message;
  std::int64_t wait_ms = 0;  // before the next try
  Usage usage = {};          // what it cost nevertheless
  bool operator==(const ModelFailed&) const = default;
};

enum class ToolOutcome : std::uint8_t {
  kDone,         // whatever it came to
  kRefused,      // the arguments are wrong: nothing was done
  kInterrupted,  // it may have happened, wholly or in part
};
std::string_view name_of(ToolOutcome outcome);

struct SandboxBound {
  Seq call = 0;
  std::string sandbox;
  std::string sandbox_template;
  bool kept = false;      // lives on when the turn ends
  std::string known_as;   // by which id the conversation knows it; empty: its own
  std::string node = {};  // on which it is
  bool operator==(const SandboxBound&) const = default;
};

struct ToolEnded {
  Seq call = 0;
  ToolOutcome outcome = ToolOutcome::kDone;
  bool is_error = false;
  std::string text;   // for the model
  std::string shown;  // for others when they may see less; empty: the same
  std::vector<std::string> redacted;
  std::string full;             // SHA-256 of all of it for others, when `text` is only a part
  std::int64_t full_bytes = 0;  // of all of it
  std::string sandbox;          // of a checkpoint, as the conversation knows it
  std::string checkpoint;       // of that sandbox, taken when the command had ended
  Usage usage = {};             // of an agent that did it
  std::int64_t took_ms = 0;
  bool operator==(const ToolEnded&) const = default;
};

// How far the agent is that does a call, as far as others have to know.
enum class ThreadStatus : std::uint8_t { kRunning, kWaits, kRescheduled, kEnded };

struct ThreadChanged {
  Seq call = 0;
  Seq seen = 0;  // the last event of the agent's log that this tells of
  ThreadStatus status = ThreadStatus::kRunning;
  EndReason ended = EndReason::kEndTurn;  // of its turn, where the status says so
  std::vector<Seq> waits;                 // its calls that wait for somebody outside
  std::string posted;                     // JSON: a list of its events that others answer, or did
  bool operator==(const ThreadChanged&) const = default;
};

using Event =
    std::variant<Created, UserMessage, UserAnswer, Interrupted, TimerFired, Resumed, ModelAsked,
                 ToolCalled, Said, SandboxReleased, TurnEnded, ModelAnswered, ContextSummarised,
                 ModelFailed, SandboxBound, ToolEnded, Forked, UserDecision, UserToolResult,
                 AgentChanged, ThreadChanged, OutcomeDefined, OutcomeGraded>;

// "user.message", "tool.ended" …
std::string_view type_of(const Event& event);

struct StoredEvent {
  Seq seq = 0;
  std::int64_t at_ms = 0;
  Event event;
  bool operator==(const StoredEvent&) const = default;
};

// As it lies in the store: the type beside a JSON object.
std::string write_body(const Event& event);
// What another program of ours wrote; kIo when it is none of our events.
Result<Event> read_event(std::string_view type, std::string_view body);

// For whoever follows the session: {"seq", "at_unix_ms", "type", …} without what is not for them.
std::string write_public(const StoredEvent& stored);

}  // namespace pons::session
