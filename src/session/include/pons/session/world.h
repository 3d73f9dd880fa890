#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/session/event.h"
#include "pons/session/log.h"

// All that a session needs of the world. The brain gives it the gateway, the warden, egress and the
// store; tests give it a world where anything can fail at any time.

namespace pons::session {

// Of a sandbox.
struct ProvisionOrder {
  std::string sandbox;  // its id: asked for twice, it is made once
  std::string sandbox_template;
  std::string environment;   // network, by the name of its rules
  std::string network = {};  // or the rules themselves
  std::string session;
  std::string project;
  std::uint64_t memory_bytes = 0;  // that it needs; 0: as usual
};

// ---- the model

struct Question {
  std::string id = {};  // digits and small letters; no other question ever has it
  std::string session;
  std::string project;
  std::string agent;                // by its name
  std::string request;              // Messages protocol, streaming
  std::string harness = {};         // that answers; empty: the model itself
  bool in_machine = false;          // where that one lives
  ProvisionOrder machine = {};      // there
  std::int64_t cost_left_nano = 0;  // that it may cost at the most; 0: no limit
  std::int64_t tokens_left = 0;
};
struct Answer {
  std::string content;  // JSON: a list of blocks
  std::string stop_reason;
  std::string model;
  Usage usage;
  std::int64_t first_ms = 0;
};
struct NoAnswer {
  Trouble trouble = Trouble::kPassing;
  ModelFault fault = ModelFault::kOther;
  std::string message;
  std::int64_t wait_ms = 0;  // that the other side asked for; 0: it did not say
  Usage usage = {};          // a failure may have cost something all the same
  bool unpaid = false;       // and more than that, which end_question() says
};

// Hears an answer while it comes.
struct Listener {
  std::function<void(std::string_view text)> on_text;
  std::function<void(std::int64_t block, std::string_view tool)> on_tool;
  std::function<void()> on_thinking = {};  // it begins to think; empty: nobody wants to know
};

// What came of a call that whoever answers has done itself (tools.h).
struct OwnReport {
  std::string text;
  bool is_error = false;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) = 0;
  // What a question came to whose answer nobody waits for: from then on nothing more comes of it.
  // Nothing when it never got anywhere. An error: it is not known yet.
  virtual Task<Result<Usage>> end_question(std::string /*id*/) { co_return Usage{}; }
  // kNotFound: nobody knows of it any more; it may have been done.
  virtual Task<Result<OwnReport>> own_result(std::string /*session*/, std::string /*call*/) {
    co_return make_error(ErrorCode::kNotFound, "find call", "nobody does it any more");
  }
  // It is archived: nobody will ask for it any more.
  virtual void forget(const std::string& /*session*/) {}
};

// ---- the hands

struct ProvisionReport {
  std::string contents;  // what is in it, for the model
};

struct ExecuteOrder {
  std::string sandbox;
  std::string call;  // its id: asked for twice, it is run once
  std::string command;
  std::string input;
  std::int64_t timeout_seconds = 0;
  enum class Undo : std::uint8_t { kNever, kOnFailure, kAlways } undo = Undo::kNever;
  std::string checkpoint = {};  // to be taken when it has ended; empty: none
  std::string forgotten = {};   // a checkpoint that is needed no more, once the new one is there
  bool was_begun = false;       // it is joined, and never begun: an error where nobody knows it
  bool may_be_remade = false;   // the sandbox, under the same id: it forgets what was begun before
};
struct ExecuteReport {
  enum class End : std::uint8_t {
    kExit,
    kSignal,
    kTimeout,
    kOutOfMemory,
    kOutputLimit,
    kInterrupted,
  } end = End::kExit;
  int code = 0;                  // exit code, or signal
  std::string output;            // both streams as they came
  std::uint64_t lost_bytes = 0;  // of it, that nobody has any more
  std::int64_t took_ms = 0;
  bool rolled_back = false;
  std::string checkpoint;  // that was taken; empty: none could be
  std::string note;
};

// A new sandbox with another's files.
struct CopyOrder {
  std::string sandbox;  // the new one's id
  std::string from;
  std::string checkpoint;  // of that one; empty: its files as they are now
  std::string sandbox_template;
  std::string session;
  std::string project;
};

class Hands {
 public:
  virtual ~Hands() = default;
  virtual Task<Result<ProvisionReport>> provision(ProvisionOrder order) = 0;
  // kNotFound: there is no such sandbox, or no such checkpoint.
  virtual Task<Result<void>> copy(CopyOrder order) = 0;
  // kNotFound: the sandbox is gone, and whether it ran with it. kInvalid: it was not run.
  virtual Task<Result<ExecuteReport>> execute(ExecuteOrder order) = 0;
  // Ends a command that nobody waits for any more.
  virtual Task<Result<void>> stop(std::string sandbox, std::string call) = 0;
  virtual Task<Result<void>> destroy(std::string sandbox) = 0;
};

// ---- the boundary

struct Redaction {
  std::string text;                   // the same, without what must not leave
  std::vector<std::string> redacted;  // names of what stood in it
  std::size_t held = 0;               // bytes at the end that may turn out to belong to something
};

class Boundary {
 public:
  virtual ~Boundary() = default;
  struct Text {
    std::string text;
    std::vector<std::string> sandboxes = {};  // whose stand-ins are looked for, too
    bool more = false;  // it goes on: an end that may be the beginning of something is held back
  };
  // kInvalid: nobody will ever look through it. Any other error: not now.
  virtual Task<Result<Redaction>> redact(Text text) = 0;
};

// ---- what is remembered

struct RecallOrder {
  std::string session;
  std::string project;
  std::vector<MemoryGrant> stores;
  std::size_t bytes_max = 0;  // of the notes themselves
};
struct NoteOrder {
  std::string session;
  std::string project;
  std::string call;  // its id: asked for twice, something is changed once
  std::vector<MemoryGrant> stores;
  std::string tool;
  std::string input;
  bool has_read_untrusted = false;
};
struct NoteReport {
  std::string text;
  bool is_error = false;
  bool is_untrusted = false;  // it shows words that came from outside
};

class Notes {
 public:
  virtual ~Notes() = default;
  // What stores there are, and the notes to begin with, for the model.
  virtual Task<Result<std::string>> recall(RecallOrder order) = 0;
  // An error: it may have been done, and may be asked for again.
  virtual Task<Result<NoteReport>> use(NoteOrder order) = 0;
};

// ---- servers of others

// Under which rules they are asked.
struct ServerWay {
  std::string session;
  std::string project;
  std::string environment;
  std::string network;
};
struct ServerOffer {
  std::vector<ServerTool> tools;
  std::vector<ServerTrouble> troubles;
};
struct ServerOrder {
  std::string call;  // its id, for the record: servers know nothing of it
  ServerGrant server;
  std::string tool;
  std::string input;
};
struct ServerReport {
  std::string text;
  bool is_error = false;
};

class Servers {
 public:
  virtual ~Servers() = default;
  // All that can be had; what cannot is a trouble.
  virtual Task<ServerOffer> list(ServerWay way, std::vector<ServerGrant> servers) = 0;
  // kInvalid, kLimit, kUnsupported, kDenied: it was not done. Any other error: it may have been.
  virtual Task<Result<ServerReport>> call(ServerWay way, ServerOrder order) = 0;
};

// ---- what people allow sandboxes to reach

struct AccessDecision {
  std::string request;  // its id: decided twice, it is decided once
  bool allowed = false;
  std::string message;
};
struct AccessReport {
  AccessOutcome outcome = AccessOutcome::kFailed;
  std::string message;
};

class AccessDesk {
 public:
  virtual ~AccessDesk() = default;
  // What came of it. An error: it may have been done, and may be asked for again.
  virtual Task<Result<AccessReport>> decide(AccessDecision decision) = 0;
  // Well, too, when it is over or was never there.
  virtual Task<Result<void>> withdraw(std::string request) = 0;
};

// Where there is none, tools that need it say so.
struct Extras {
  Notes* notes = nullptr;
  Servers* servers = nullptr;
  AccessDesk* desk = nullptr;
};

// ---- other agents

// Hears the log of an agent while it comes about, from its first event on.
using Watching = std::function<void(const std::vector<StoredEvent>& events)>;

struct ChildOrder {
  std::string session;  // its id: asked for twice, it is made once
  std::string project;
  std::string parent;
  Seq parent_call = 0;
  AgentSpec agent;
  std::string task;
  bool untrusted = false;   // the task may hold words that came from outside
  Watching on_events = {};  // may be empty
};
struct ChildReport {
  std::string text;
  std::string ended;  // how its turn did
  Usage usage;
  bool untrusted = false;
};

// Whoever follows a session. Called when something is on disk; deltas when they come.
class Audience {
 public:
  virtual ~Audience() = default;
  virtual void on_events(const std::string& session, const std::vector<StoredEvent>& events) = 0;
  // A piece of the answer to that question.
  virtual void on_delta(const std::string& session, Seq asked, std::string_view text) = 0;
  virtual bool wants_deltas(const std::string& session) const = 0;
  // The model thinks about that question.
  virtual void on_thinking(const std::string& session, Seq asked) = 0;
};

struct World {
  linux::Loop& loop;
  const Clock& clock;
  Log& log;
  Model& model;
  Hands& hands;
  Boundary& boundary;
  Audience& audience;
  Extras extras;
  // Runs until that session's turn is over.
  std::function<Task<Result<ChildReport>>(ChildOrder)> run_child;
  // Well, too, when it has ended or never began.
  std::function<Task<Result<void>>(std::string session)> stop_child;
  // Counts what a question came to, in the session that asked it. Once, however often it is done.
  std::function<Task<Result<void>>(Chore chore)> charge_question;
  // Which of the processes that share the log this is; empty: there is no other.
  std::string node = {};

  std::int64_t now_ms() const;
};

}  // namespace pons::session
