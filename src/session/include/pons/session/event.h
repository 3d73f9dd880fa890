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

// A store of notes that the session has.
struct MemoryGrant {
  std::string store;         // its id; empty in a configuration, which knows its name
  std::string name;          // as the model calls it
  std::string description;   // what is in it; may be empty
  std::string instructions;  // what to do with it; may be empty
  bool read_only = false;
  bool operator==(const MemoryGrant&) const = default;
};

// A server of somebody else, whose tools the session has.
struct ServerGrant {
  std::string name;
  std::string url;
  std::string toolset;     // JSON: which of its tools, and which of them a person allows each time
  std::string credential;  // of the vault, by name; empty: none
  bool operator==(const ServerGrant&) const = default;
};

// Which pages web_fetch may fetch, and how much of one is read.
struct WebRules {
  std::vector<std::string> allowed = {};  // hosts, and all below them; empty: any
  std::vector<std::string> blocked = {};  // the same
  std::int64_t tokens_max = 0;            // about; 0: as much as any tool may say
  bool operator==(const WebRules&) const = default;
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
  // Those of which Pons decides whether they ask; `asks` has what it has decided.
  std::vector<std::string> judged = {};
  std::vector<CustomTool> custom = {};
  std::vector<MemoryGrant> memory = {};
  std::vector<ServerGrant> servers = {};
  WebRules web = {};
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
  // Another session's machine that it uses, by that one's id; where that one has moved, with how
  // often behind a colon.
  std::string machine_of = {};
  // Somebody else's agent that answers in the model's place: its name; empty: none. It lives beside
  // the brain, with none but these tools, or in the session's machine, with its own.
  std::string harness = {};
  bool harness_in_machine = false;
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
  bool untrusted = false;  // what that one says may be somebody else's words
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

// What a client has changed of the session, for whoever follows it. It is what the client's side
// keeps; an AgentChanged behind it is what the session itself has to know of that.
struct Updated {
  std::int64_t number = 0;  // of the change: the first is 1; what comes too late is refused
  std::string changes;      // JSON: members with what they are now
  bool operator==(const Updated&) const = default;
};

// The agent that did a call is put away.
struct ThreadArchived {
  Seq call = 0;
  bool operator==(const ThreadArchived&) const = default;
};

// The session is over: nothing comes behind this.
struct Archived {
  bool operator==(const Archived&) const = default;
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
  bool unpaid = false;    // the question that was open: ModelCharged says later what it came to
  bool operator==(const Resumed&) const = default;
};

// Up to here the log is a copy of another session's. What was under way there is not, here.
struct Forked {
  std::string from;
  Seq at = 0;
  bool operator==(const Forked&) const = default;
};

// ---- what the session decides, written before it is done

// What it knows already and which tools servers offer is looked up, before the model is asked.
struct Equipping {
  bool operator==(const Equipping&) const = default;
};

// kGrade: somebody who has not done the work judges it by the outcome's rubric.
enum class Purpose : std::uint8_t { kReply, kSummary, kGrade };

struct ModelAsked {
  Purpose purpose = Purpose::kReply;
  std::int64_t attempt = 1;
  std::string
      digest;  // SHA-256 of the conversation that is sent: messages, not what surrounds them
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
  bool asks = false;  // it waits until a person allows it
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
  std::string message;         // for people; may be empty
  std::int64_t active_ms = 0;  // that the session has been at work in all its turns
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

// A tool that a server of somebody else offers, and that its session may use.
struct ServerTool {
  std::string server;
  std::string name;        // as the server calls it
  std::string alias;       // as the model does
  std::string definition;  // JSON: name (the alias), description, input_schema
  bool asks = false;       // a person allows each call
  bool operator==(const ServerTool&) const = default;
};

enum class ServerFault : std::uint8_t { kConnection, kAuthentication, kTools };
std::string_view name_of(ServerFault fault);

// Its tools, or some of them, are missing in this turn.
struct ServerTrouble {
  std::string server;
  ServerFault fault = ServerFault::kConnection;
  std::string message;
  std::vector<std::string> redacted = {};
  bool operator==(const ServerTrouble&) const = default;
};

struct Equipped {
  Seq asked = 0;
  std::string notes;  // of its memory, for the model: what it has, and what to begin with
  std::vector<ServerTool> tools;
  bool same_tools = false;  // as before, and not listed again
  bool operator==(const Equipped&) const = default;
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

// What the model's side says is the matter with it, where that is known.
enum class ModelFault : std::uint8_t { kOther, kRateLimited, kOverloaded };

struct ModelFailed {
  Seq asked = 0;
  Trouble trouble = Trouble::kPassing;
  ModelFault fault = ModelFault::kOther;
  std::string message;
  std::int64_t wait_ms = 0;  // before the next try
  Usage usage = {};          // what it cost nevertheless
  std::vector<std::string> redacted = {};
  bool unpaid = false;  // what it cost is not known yet: ModelCharged says it
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
  bool untrusted = false;       // holds words that came from outside
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

// What an agent has used whose call had ended before it did: nobody waited for it any more.
struct AgentCharged {
  std::string agent;  // its session; counted once
  Usage usage;
  bool operator==(const AgentCharged&) const = default;
};

// What a question has used whose answer never came: nobody waited for it any more, or nobody could
// say. Counted once.
struct ModelCharged {
  std::string question;  // by its name in the session (state.h)
  Usage usage;
  bool operator==(const ModelCharged&) const = default;
};

// A program in one of its sandboxes asks to reach what the sandbox's rules do not allow. A person
// decides, by a UserDecision with this event's number.
struct AccessAsked {
  std::string request;  // its id, by which egress knows it; asked once
  std::string host;
  std::int64_t port = 0;
  std::string wish;  // JSON, for people: host, port, methods, and a reason in a stranger's words
  std::string node = {};  // on which the sandbox is
  bool operator==(const AccessAsked&) const = default;
};

// kWithdrawn: nobody waits for it any more. kFailed: a person allowed it, and nothing came of that.
enum class AccessOutcome : std::uint8_t { kAllowed, kDenied, kWithdrawn, kFailed };
std::string_view name_of(AccessOutcome outcome);

struct AccessEnded {
  std::string request;
  AccessOutcome outcome = AccessOutcome::kWithdrawn;
  std::string message;  // why not, in a person's words or ours; may be empty
  bool operator==(const AccessEnded&) const = default;
};

using Event =
    std::variant<Created, UserMessage, UserAnswer, Interrupted, TimerFired, Resumed, ModelAsked,
                 ToolCalled, Said, SandboxReleased, TurnEnded, ModelAnswered, ContextSummarised,
                 ModelFailed, SandboxBound, ToolEnded, Forked, UserDecision, UserToolResult,
                 AgentChanged, Equipping, Equipped, ServerTrouble, ThreadChanged, OutcomeDefined,
                 OutcomeGraded, AgentCharged, AccessAsked, AccessEnded, ModelCharged, Updated,
                 ThreadArchived, Archived>;

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
