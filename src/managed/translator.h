#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "event_id.h"
#include "pons/base/json.h"
#include "pons/session/state.h"

namespace pons::managed {

// One event as clients of the API see it.
struct PublicEvent {
  std::string id;
  std::string type;
  std::int64_t at_ms = 0;
  std::string text;        // JSON
  bool is_queued = false;  // said while the agent was at work, which has not read it yet
};

// Makes the API's events out of a session's log. It folds the log as it goes: that a session begins
// to work, or waits for somebody, is no event of the log but follows from what it adds up to. The
// conversation itself it forgets.
class Translator {
 public:
  explicit Translator(std::string session) : session_(std::move(session)) {}

  // For the log of an agent that works for another session: what it is told and what it says is
  // between the two of them.
  struct Thread {
    std::string primary;  // the session that it works for
    std::string agent;    // its name there
  };
  Translator(std::string session, Thread thread)
      : session_(std::move(session)), thread_(std::move(thread)) {}

  // The next event of the log; every one of them, from the first on.
  std::vector<PublicEvent> take(const session::StoredEvent& stored);

  // A piece of the answer that is being given: "event_start" before the first one. When one comes
  // too early or too late to be shown, those behind it are not shown either: what clients have is
  // always a beginning of the answer.
  std::vector<PublicEvent> take_delta(session::Seq asked, std::string_view text);

  // The model thinks about that question: "event_start" without anything behind it, once.
  std::vector<PublicEvent> take_thinking(session::Seq asked);

  const session::State& state() const { return state_; }
  // The log has come to its end: nothing is behind this.
  bool is_over() const { return is_over_; }
  std::string id_of(EventId id) const { return write_event_id(session_, id); }

 private:
  struct Making;
  void forget_what_was_said();
  void release_end(std::vector<PublicEvent>& out);
  PublicEvent start_of(const char* type, EventId id) const;
  std::vector<std::string> waiting_calls() const;
  std::string child_of(session::Seq call) const;
  std::vector<std::string> waits_of(const session::ThreadChanged& thread) const;

  std::string session_;
  std::optional<Thread> thread_;
  session::State state_;
  std::map<session::Seq, std::string> threads_;  // names of agents that do calls
  std::map<std::string, bool> posted_;  // calls of those, by their ids: whether they are custom
  std::set<session::Seq> closed_threads_;
  std::string last_said_;
  std::optional<PublicEvent> held_end_;  // of a request whose calls are not all shown yet
  session::ModelFault fault_ = session::ModelFault::kOther;  // of the last question that failed
  session::Seq updated_ = 0;                                 // the last change of a client
  bool is_over_ = false;
  session::Seq grading_ = 0;    // the first question to whoever judges, until there is a verdict
  session::Seq thought_ = 0;    // the question of which it was shown that the model thinks about it
  session::Seq previewed_ = 0;  // the question whose answer has begun to be shown
  session::Seq unshown_ = 0;    // the question whose answer is not shown before it is whole
};

}  // namespace pons::managed
