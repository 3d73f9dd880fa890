#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "chores.h"
#include "pons/session/decide.h"
#include "pons/session/fold.h"
#include "pons/session/tool_text.h"
#include "pons/session/tools.h"
#include "pons/session/world.h"

namespace pons::session {

// The id of the sandbox for that, and for nothing else.
std::string sandbox_id_for(std::string_view purpose);
// The name of the machine that a session has for as long as it stays on its node: with each move it
// is another one.
std::string machine_name_of(std::string_view session, std::int64_t moves);
std::string machine_id_of(std::string_view name);

// One session at work. Everything that happens goes through one place: what came in is folded, what
// follows is decided, all of it is stored in one go, and only then is anything begun. What runs is
// made to match what the state waits for, so that going on after a crash is the same as going on.
class Driver {
 public:
  Driver(World& world, Chores& chores, Lease lease, State state, Summary summary);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Until the session has rested for a while, or belongs to somebody else.
  Task<> run();
  // What a person or a channel says, all of it or nothing. The numbers, once it is stored.
  // `handed_over`: by which id another process has stored it for this one; empty: it was said here.
  Task<Result<std::vector<Seq>>> add(std::vector<Event> inputs, std::string handed_over = {});

  // Whether it would be taken now.
  Result<void> check(std::vector<Event> inputs);

  const State& state() const { return state_; }
  const Summary& summary() const { return summary_; }
  bool is_over() const { return over_; }

 private:
  struct Receipt {
    explicit Receipt(linux::Loop& loop) : done(loop) {}
    linux::Event done;
    Result<std::vector<Seq>> result = make_error(ErrorCode::kUnavailable, "add to session",
                                                 "the session is being moved; try again");
  };
  struct Item {
    std::vector<Event> events;
    std::vector<Blob> blobs = {};
    Seq effect = 0;  // what it came of; 0: from outside
    std::shared_ptr<Receipt> receipt = nullptr;
    std::string handed_over = {};
  };
  struct Effect {
    explicit Effect(linux::Loop& loop) : group(loop) {}
    linux::TaskGroup group;
  };
  // A sandbox that is made before the model has said all of its call.
  struct Prepared {
    explicit Prepared(linux::Loop& loop) : done(loop) {}
    linux::Event done;
    std::optional<Result<ProvisionReport>> report;
  };
  enum class Stored : std::uint8_t { kYes, kLost, kRefused };

  // driver.cc: the loop
  bool has_work() const { return !effects_.empty() || preparing_.size() > 0; }
  TimePoint wake_time() const;
  Task<bool> wait_for_news();
  Task<> commit();
  std::vector<Item> take_inbox();
  void take_item(Item& item, std::int64_t now_ms, Batch& batch);
  Result<std::vector<Seq>> take_inputs(std::vector<Event>& inputs, std::int64_t now_ms,
                                       Batch& batch);
  void end_left_behind();
  bool has_files_here() const;
  void add_chores(const State& before, Batch& batch) const;
  void add_stop(const State& before, Seq call, Batch& batch) const;
  Result<Seq> check_input(const Event& event) const;
  Result<void> check_room(const UserMessage& message) const;
  Result<void> expect_waiting(Seq call, WaitsFor whom) const;
  bool is_waited_for(Seq effect) const;
  Task<Stored> store(const Batch& batch, bool may_be_refused);
  Task<Result<bool>> is_stored(const Batch& batch);
  void put_back(std::vector<Item> items);
  void finish(Stored stored, Batch& batch, std::vector<Item>& items, Error error);
  void match_effects();

  // effects.cc: what is done
  void deliver(Item item);
  Task<> ask_model(Asked asked);
  void add_harness(Question& question) const;
  Task<std::variant<Answer, NoAnswer>> hear_answer(Question question, const Listener& listener);
  Item failure_of(Seq asked, NoAnswer none) const;
  Task<> speak(Seq asked, std::string& unsaid, linux::Event& more);
  void prepare_sandbox(Seq asked, std::int64_t block, std::string_view tool);
  Task<> make_ready(ProvisionOrder order, Prepared& prepared);
  Task<Result<ProvisionReport>> take_sandbox(const ProvisionOrder& order);
  void drop_prepared();
  Task<Redaction> redact(std::string text);
  Task<> redact_full(ToolEnded& ended, Blob& blob);
  std::int64_t pause_before_next_try(std::int64_t asked_for_ms, Seq asked) const;
  Task<> run_call(Seq seq);
  Task<Item> provision(const Call& call);
  Task<Item> execute(const Call& call);
  Task<Item> use_machine(const Call& call);
  Task<Item> hear_of_own(const Call& call);
  ProvisionOrder machine_order() const;
  Task<> deliver_grade(Seq asked, Answer answer, std::int64_t took_ms);
  Task<> equip(Seq asked);  // equipment.cc
  Task<Item> use_memory(const Call& call);
  Task<Item> call_server(const Call& call);
  Task<> carry_out_decision(Seq seq);
  ServerWay server_way() const;
  std::size_t sandboxes_before(Seq call) const;
  std::string forgotten_with(const std::vector<std::string>& taken, Seq call) const;
  static void put_text(ToolText text, ToolEnded ended, Item& item);
  ProvisionOrder order_of(const State& state, Seq asked, std::int64_t block) const;
  ProvisionOrder order_for(const State& state, const Call& call,
                           const ProvisionArguments& arguments) const;
  std::string call_id(Seq seq) const;
  std::string question_id(const std::string& name, std::int64_t at_ms) const;
  std::string machine_name(const State& state) const;
  std::vector<std::string> sandbox_ids() const;

  // threads.cc: other agents
  Task<Item> spawn_agent(const Call& call);
  AgentSpec thread_agent(const SpawnArguments& arguments) const;
  void bind_machine(std::int64_t now_ms, Batch& batch);
  bool works_on_machine(const Call& call) const;
  Task<bool> has_lost_machine();
  Task<bool> has_been_taken(Seq since);
  Task<std::vector<StoredEvent>> read_on(std::string session, Seq after);
  void note_of_owner(const StoredEvent& stored);
  std::string child_of(Seq call) const;

  World& world_;
  Chores& chores_;
  Lease lease_;
  State state_;
  Summary summary_;
  std::vector<Item> inbox_;
  linux::Event news_;
  std::map<Seq, std::unique_ptr<Effect>> effects_;
  std::map<std::string, std::unique_ptr<Prepared>> prepared_;  // by sandbox
  // Calls of servers and of the machine that a process before this one has begun.
  std::set<Seq> asked_before_;
  // Of a thread: where the session is whose machine it works on, as far as its log was read.
  struct Owner {
    Seq head = 0;
    std::string node;
    std::int64_t moves = 0;
  };
  Owner machine_owner_;
  Error store_error_;
  bool was_refused_ = false;  // the last step, though it was not of people's making
  bool over_ = false;
  linux::TaskGroup preparing_;
};

}  // namespace pons::session
