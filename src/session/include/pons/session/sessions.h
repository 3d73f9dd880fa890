#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pons/session/state.h"
#include "pons/session/world.h"

namespace pons::session {

class Chores;
class Driver;

struct NewSession {
  std::string id = {};  // empty: one is made. One that is there already is the answer
  std::string project;
  AgentSpec agent;
  std::string title = {};
  std::string parent = {};
  Seq parent_call = 0;
  bool untrusted = false;                             // the parent's words may be somebody else's
  std::optional<UserMessage> message = std::nullopt;  // which starts it at once
};

// What a follower gets next.
struct News {
  std::vector<StoredEvent> events;  // in their order, without a gap
  std::string deltas;               // of an answer that is still being given, in their order;
  Seq deltas_of = 0;                // to this question. Once one is missing, none follows
};

// Somebody who follows one session, from wherever they are in it.
class Follower {
 public:
  virtual ~Follower() = default;
  // Waits for something new; nothing when the deadline passes first.
  virtual Task<Result<News>> next(TimePoint deadline) = 0;
};

// All sessions of this process. Those that rest are in the log and nowhere else.
class Sessions final : private Audience {
 public:
  // `extras` are what only some sessions need.
  Sessions(linux::Loop& loop, const Clock& clock, Log& log, Model& model, Hands& hands,
           Boundary& boundary, Extras extras = {});
  ~Sessions();

  Task<Result<Summary>> create(NewSession wish);
  // Stored when answered. kInvalid says what is wrong with it.
  Task<Result<Seq>> add(std::string session, Event input);
  // All of them or, when one is refused, none: in one commit, with what is decided because of them.
  Task<Result<std::vector<Seq>>> add_all(std::string session, std::vector<Event> inputs);
  // Whether they would be taken now.
  Task<Result<void>> check_all(std::string session, std::vector<Event> inputs);
  // A new session that begins with the other's log up to `at`; 0: all of it.
  Task<Result<Summary>> fork(std::string session, Seq at, std::string project);
  Task<Result<void>> archive(std::string session);

  struct From {
    Seq after = 0;
    bool with_deltas = true;
  };
  // Must be gone before this is.
  std::unique_ptr<Follower> follow(std::string session, From from);

  // Takes up what was left by a process that died, says that this one lives, and forgets sessions
  // that rest. Runs as long as the process.
  Task<> keep_going();

  // The whole log of a session.
  Task<Result<std::vector<StoredEvent>>> read_all(std::string session);

  // Told of all events of all sessions of this process, once they are stored. Before the first one.
  using Observer = std::function<void(const std::string& session, const std::vector<StoredEvent>&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  std::size_t loaded() const { return loaded_.size(); }
  Log& log() { return world_.log; }

 private:
  friend class FeedFollower;
  struct Loaded;
  class Loading;
  struct Feed;

  Task<Result<Loaded*>> load(const std::string& session);
  Task<std::vector<SandboxBound>> copy_sandboxes(const State& then, bool has_moved_on,
                                                 const NewSession& wish);
  Loaded& start(Lease lease, State state, Summary summary);
  void forget_resting();
  Task<> adopt(std::shared_ptr<std::vector<std::string>> left);
  Task<Result<ChildReport>> run_child(ChildOrder order);
  Task<Result<void>> stop_child(std::string session);

  void on_events(const std::string& session, const std::vector<StoredEvent>& events) override;
  void on_delta(const std::string& session, Seq asked, std::string_view text) override;
  bool wants_deltas(const std::string& session) const override;

  World world_;
  Observer observer_;
  std::map<std::string, std::unique_ptr<Feed>> feeds_;  // of sessions that somebody follows
  std::unique_ptr<Chores> chores_;
  std::map<std::string, std::unique_ptr<Loaded>> loaded_;
  std::map<std::string, std::shared_ptr<linux::Event>> loading_;
  linux::TaskGroup tasks_;
};

}  // namespace pons::session
