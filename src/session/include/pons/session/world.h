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

// ---- the model

struct Question {
  std::string session;
  std::string project;
  std::string request;  // Messages protocol, streaming
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
  std::string message;
  std::int64_t wait_ms = 0;    // that the other side asked for; 0: it did not say
  std::int64_t cost_nano = 0;  // a failure may have cost something all the same
};

// Hears an answer while it comes.
struct Listener {
  std::function<void(std::string_view text)> on_text;
  std::function<void(std::int64_t block, std::string_view tool)> on_tool;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) = 0;
};

// ---- the hands

struct ProvisionOrder {
  std::string sandbox;  // its id: asked for twice, it is made once
  std::string sandbox_template;
  std::string environment;   // network, by the name of its rules
  std::string network = {};  // or the rules themselves
  std::string session;
  std::string project;
};
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
  virtual Task<Result<Redaction>> redact(Text text) = 0;
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
  Watching on_events = {};  // may be empty
};
struct ChildReport {
  std::string text;
  std::string ended;  // how its turn did
  Usage usage;
};

// Whoever follows a session. Called when something is on disk; deltas when they come.
class Audience {
 public:
  virtual ~Audience() = default;
  virtual void on_events(const std::string& session, const std::vector<StoredEvent>& events) = 0;
  // A piece of the answer to that question.
  virtual void on_delta(const std::string& session, Seq asked, std::string_view text) = 0;
  virtual bool wants_deltas(const std::string& session) const = 0;
};

struct World {
  linux::Loop& loop;
  const Clock& clock;
  Log& log;
  Model& model;
  Hands& hands;
  Boundary& boundary;
  Audience& audience;
  // Runs until that session's turn is over.
  std::function<Task<Result<ChildReport>>(ChildOrder)> run_child;
  // Well, too, when it has ended or never began.
  std::function<Task<Result<void>>(std::string session)> stop_child;
  // Which of the processes that share the log this is; empty: there is no other.
  std::string node = {};

  std::int64_t now_ms() const;
};

}  // namespace pons::session
