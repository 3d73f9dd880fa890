#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pons/session/state.h"
#include "pons/session/world.h"
#include "pons/store/bell.h"

namespace pons::session {

class Chores;
class Driver;

struct NewSession {
  // Empty: one is made. One that is there already is the answer, and takes the message, unless it
  // has one of the same dedupe key. kConflict where the message has none, or where it takes none.
  std::string id = {};
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
  Seq thinks_of = 0;                // a question that the model has begun to think about
};

// Somebody who follows one session, from wherever they are in it.
class Follower {
 public:
  virtual ~Follower() = default;
  // Waits for something new; nothing when the deadline passes first. kNotFound: the session is
  // deleted.
  virtual Task<Result<News>> next(TimePoint deadline) = 0;
};

// How a process shares its sessions with others that have the same store.
struct Sharing {
  std::string node = {};                             // its name among them; empty: it is alone
  Duration between_looks = std::chrono::seconds(5);  // at what others have left, and said
  store::Bell* bell = nullptr;                       // while it is closed, looks are many
};

// All sessions of this process. Those that rest are in the log and nowhere else.
class Sessions final : private Audience {
 public:
  // `extras` are what only some sessions need.
  Sessions(linux::Loop& loop, const Clock& clock, Log& log, Model& model, Hands& hands,
           Boundary& boundary, Extras extras = {}, Sharing sharing = {});
  ~Sessions();

  Task<Result<Summary>> create(NewSession wish);
  // Stored when answered, whoever has the session. kInvalid says what is wrong with it.
  Task<Result<Seq>> add(std::string session, Event input);
  // All of them or, when one is refused, none: in one commit, with what is decided because of them.
  Task<Result<std::vector<Seq>>> add_all(std::string session, std::vector<Event> inputs);
  // Whether they would be taken now.
  Task<Result<void>> check_all(std::string session, std::vector<Event> inputs);
  // A new session that begins with the other's log up to `at`; 0: all of it.
  Task<Result<Summary>> fork(std::string session, Seq at, std::string project);
  Task<Result<void>> archive(std::string session, Farewell farewell = Farewell::kSaid);
  // It is deleted: whoever follows it, here or elsewhere, is told.
  void forget(const std::string& session);

  struct From {
    Seq after = 0;
    bool with_deltas = true;
    bool with_thinking = false;
  };
  // Must be gone before this is.
  std::unique_ptr<Follower> follow(std::string session, From from);

  // Takes up what was left by a process that died, says that this one lives, and forgets sessions
  // that rest. Runs as long as the process.
  Task<> keep_going();

  // Another process has said so (log.h).
  void hear(std::string_view topic);

  // The whole log of a session.
  Task<Result<std::vector<StoredEvent>>> read_all(std::string session);

  // Told of all events of all sessions of this process, once they are stored. Before the first one.
  using Observer = std::function<void(const std::string& session, const std::vector<StoredEvent>&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  std::size_t loaded() const { return loaded_.size(); }
  Log& log() { return world_.log; }
  std::int64_t now_ms() const { return world_.now_ms(); }

 private:
  friend class FeedFollower;
  struct Loaded;
  class Loading;
  struct Feed;

  Task<Result<Summary>> add_to_made(NewSession wish, Summary found);
  Task<Result<Loaded*>> load(const std::string& session, Take how = Take::kUnlessAtHome);
  Task<Result<Loaded*>> load_taken(Lease lease);
  Task<std::vector<SandboxBound>> copy_sandboxes(const std::string& original, const State& then,
                                                 bool has_moved_on, const NewSession& wish);
  Loaded& start(Lease lease, State state, Summary summary);
  void forget_resting();
  Task<Result<std::vector<std::string>>> find_left();
  Task<> adopt_all();
  Task<> adopt(std::shared_ptr<std::vector<std::string>> left);
  Task<> adopt_taken(Lease lease);

  // elsewhere.cc: sessions that other processes have
  bool is_shared() const { return !world_.node.empty(); }
  bool is_here(const std::string& session) const;
  Duration look_time() const;
  Task<> keep_looking();
  Task<> keep_renewing();
  Task<Result<std::vector<Seq>>> add_here(const std::string& session, std::vector<Event> inputs,
                                          std::string handed_over);
  Task<Result<std::vector<Seq>>> hand_over(std::string session, std::vector<Event> inputs);
  Task<Result<void>> check_elsewhere(std::string session, std::vector<Event> inputs);
  Task<> accept_inputs();
  Task<> accept(std::string session, std::vector<HandedOver> inputs);
  Task<> compare_heads();
  void look_again(std::string_view session);
  void end_followers(std::string_view session);
  Task<Result<ChildReport>> run_child(ChildOrder order);
  Task<Result<void>> add_if_open(std::string session, Event input);
  Task<Result<void>> stop_child(std::string session);
  Task<Result<Usage>> find_use(std::string session);
  Task<Result<void>> charge_question(Chore chore);

  void on_events(const std::string& session, const std::vector<StoredEvent>& events) override;
  void on_delta(const std::string& session, Seq asked, std::string_view text) override;
  bool wants_deltas(const std::string& session) const override;
  void on_thinking(const std::string& session, Seq asked) override;

  World world_;
  Observer observer_;
  std::map<std::string, std::unique_ptr<Feed>> feeds_;  // of sessions that somebody follows
  std::unique_ptr<Chores> chores_;
  std::map<std::string, std::unique_ptr<Loaded>> loaded_;
  std::map<std::string, std::shared_ptr<linux::Event>> loading_;
  Sharing sharing_;
  linux::Event has_inputs_;  // of others, for sessions that are here
  std::set<std::string> accepting_;
  std::multimap<std::string, linux::Event*, std::less<>> waiting_;  // for replies, by session
  linux::TaskGroup tasks_;
};

}  // namespace pons::session
