#include "driver.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "pons/base/log.h"
#include "pons/session/machine_tools.h"
#include "pons/session/tools.h"

namespace pons::session {

namespace {

// Someone who writes twice within this time does not make the log be read again.
constexpr Duration kRestTime = std::chrono::seconds(20);
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(5);
// Someone who says something hears so soon whether it is stored.
constexpr Duration kReceiptTime = std::chrono::seconds(60);
// What one step stores beside its events. The rest waits for the next one.
constexpr std::size_t kBlobBytesMax = 16 << 20;
constexpr std::size_t kUnreadBytesMax = 24 << 20;
// However far the clock jumps, a wait takes no longer.
constexpr std::int64_t kLongestWaitMs = 10 * 60 * 1'000;

bool runs_in_sandbox(std::string_view tool) {
  return tool == kProvision || tool == kExecute || is_machine_tool(tool);
}

// Money is no part of what an agent is in the middle of.
bool is_same_but_budget(AgentSpec after, const AgentSpec& before) {
  after.budget_nano = before.budget_nano;
  after.budget_tokens = before.budget_tokens;
  return after == before;
}

}  // namespace

std::int64_t World::now_ms() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall().time_since_epoch())
      .count();
}

Driver::Driver(World& world, Chores& chores, Lease lease, State state, Summary summary)
    : world_(world),
      chores_(chores),
      lease_(std::move(lease)),
      state_(std::move(state)),
      summary_(std::move(summary)),
      news_(world.loop),
      preparing_(world.loop) {}

Driver::~Driver() {
  effects_.clear();
  for (Item& item : inbox_)
    if (item.receipt) item.receipt->done.set();
}

Task<Result<std::vector<Seq>>> Driver::add(std::vector<Event> inputs, std::string handed_over) {
  if (over_)
    co_return make_error(ErrorCode::kUnavailable, "add to session",
                         "the session is being moved; try again");
  const auto receipt = std::make_shared<Receipt>(world_.loop);
  deliver({.events = std::move(inputs), .receipt = receipt, .handed_over = std::move(handed_over)});
  if (co_await receipt->done.wait(world_.loop.now() + kReceiptTime) == linux::Wait::kTimeout)
    co_return make_error(ErrorCode::kTimeout, "add to session",
                         "the store has not taken it yet, and may still do so");
  co_return receipt->result;
}

void Driver::deliver(Item item) {
  inbox_.push_back(std::move(item));
  news_.set();
}

Task<> Driver::run() {
  // What was under way when the log was read: the log shows that it was taken up again.
  const bool has_moved = state_.node != world_.node;
  const bool is_resumed = has_moved || (state_.turn_open && lease_.epoch > 1);
  if (is_resumed)
    deliver({.events = {Resumed{
                 .epoch = lease_.epoch, .node = world_.node, .unpaid = state_.asked.has_value()}}});
  for (const Call& call : state_.calls)
    if (call.is_open() && call.waits_for == WaitsFor::kNobody &&
        (!call.server.empty() || is_machine_tool(call.name)))
      asked_before_.insert(call.seq);
  if (has_moved) end_left_behind();
  // Otherwise nothing is begun before that is stored: a question that is asked anew is another.
  if (!is_resumed) match_effects();
  while (!over_ && co_await wait_for_news()) co_await commit();
  over_ = true;
  effects_.clear();
  for (Item& item : std::exchange(inbox_, {}))
    if (item.receipt) item.receipt->done.set();
}

// On the node that had the session before, these may have run, or run still: here they must not.
void Driver::end_left_behind() {
  for (const Call& call : state_.calls)
    if (call.is_open() && call.waits_for == WaitsFor::kNobody && runs_in_sandbox(call.name))
      deliver({.events = {ToolEnded{
                   .call = call.seq,
                   .outcome = ToolOutcome::kInterrupted,
                   .is_error = true,
                   .text = "interrupted: the machine on which this ran is lost, and its sandboxes "
                           "with it. It may have run, wholly or in part; look before you run it "
                           "again."}},
               .effect = call.seq});
}

TimePoint Driver::wake_time() const {
  if (!state_.wake_at_ms) return has_work() ? kNever : world_.loop.now() + kRestTime;
  const std::int64_t left =
      std::clamp<std::int64_t>(*state_.wake_at_ms - world_.now_ms(), 0, kLongestWaitMs);
  return world_.loop.now() + std::chrono::milliseconds(left);
}

// False when there will be none for some time.
Task<bool> Driver::wait_for_news() {
  if (inbox_.empty()) {
    news_.reset();
    const bool is_due = co_await news_.wait(wake_time()) == linux::Wait::kTimeout;
    if (is_due && state_.wake_at_ms)
      inbox_.push_back({.events = {TimerFired{}}});
    else if (is_due)
      co_return false;
  }
  co_return true;
}

// ---- one step: fold, decide, store, and only then do

Task<> Driver::commit() {
  std::vector<Item> items = take_inbox();
  if (items.empty()) co_return drop_prepared();  // one is ready, and nobody may want it any more
  // When only people said something, the store may refuse it and nothing has happened. What came
  // of work that was done must not be lost.
  const bool may_be_refused =
      std::ranges::all_of(items, [](const Item& item) { return item.receipt != nullptr; });
  const State before = state_;
  Batch batch{.lease = lease_, .events = {}, .summary = summary_};
  const std::int64_t now_ms = world_.now_ms();
  for (Item& item : items) {
    take_item(item, now_ms, batch);
    settle(state_, now_ms, batch.events);
  }
  bind_machine(now_ms, batch);
  Stored stored = Stored::kYes;
  if (!batch.events.empty()) {
    batch.summary.status = status_of(state_);
    batch.summary.ended = state_.ended ? name_of(*state_.ended) : "";
    batch.summary.head = state_.head;
    batch.summary.updated_ms = now_ms;
    batch.summary.usage = state_.usage;
    batch.summary.home = has_files_here() ? world_.node : std::string();
    add_chores(before, batch);
    stored = co_await store(batch, may_be_refused);
  }
  if (stored == Stored::kRefused) state_ = before;
  if (stored == Stored::kRefused && !may_be_refused) {
    put_back(std::move(items));
    if (std::exchange(was_refused_, true)) co_await world_.loop.sleep_for(kLongestPause);
    co_return;
  }
  was_refused_ = false;
  finish(stored, batch, items, store_error_);
}

// They are nowhere else, also those of another session that this one works on.
bool Driver::has_files_here() const {
  const bool uses_another = !state_.agent.machine_of.empty() && state_.moves == 0;
  return !state_.sandboxes.empty() || uses_another;
}

// As much of it as the store takes in one go.
std::vector<Driver::Item> Driver::take_inbox() {
  std::size_t bytes = 0;
  auto end = inbox_.begin();
  for (; end != inbox_.end(); ++end) {
    for (const Blob& blob : end->blobs) bytes += blob.bytes.size();
    if (bytes > kBlobBytesMax && end != inbox_.begin()) break;
  }
  std::vector<Item> items(std::make_move_iterator(inbox_.begin()), std::make_move_iterator(end));
  inbox_.erase(inbox_.begin(), end);
  return items;
}

// What must happen outside because of these events, however often this process dies meanwhile.
void Driver::add_chores(const State& before, Batch& batch) const {
  const auto add = [&](std::string_view kind, std::string what, const std::string& node) {
    batch.chores.push_back({.id = fmt::format("{}-{}", kind, what),
                            .project = lease_.project,
                            .session = lease_.session,
                            .kind = std::string(kind),
                            .what = std::move(what),
                            .node = node});
  };
  for (const auto& [name, at_ms] : state_.unpaid)
    if (!before.unpaid.contains(name))
      batch.chores.push_back(
          {.id = fmt::format("{}-{}:{}", Chores::kChargeQuestion, lease_.session, name),
           .project = lease_.project,
           .session = lease_.session,
           .kind = std::string(Chores::kChargeQuestion),
           .what = fmt::format("{} {}", name, question_id(name, at_ms)),
           .node = world_.node});
  for (const StoredEvent& event : batch.events) {
    if (const auto* released = std::get_if<SandboxReleased>(&event.event))
      add(Chores::kDestroySandbox, released->sandbox, world_.node);
    if (const auto* resumed = std::get_if<Resumed>(&event.event);
        resumed != nullptr && resumed->node != before.node) {
      for (const auto& [name, sandbox] : before.sandboxes)
        if (sandbox.node != world_.node) add(Chores::kDestroySandbox, sandbox.id, sandbox.node);
    }
    if (const auto* access = std::get_if<AccessEnded>(&event.event);
        access != nullptr && access->outcome == AccessOutcome::kWithdrawn) {
      const AccessWait* wait = before.find_access(access->request);
      add(Chores::kWithdrawAccess, access->request, wait == nullptr ? world_.node : wait->node);
    }
    const auto* ended = std::get_if<ToolEnded>(&event.event);
    if (ended == nullptr || ended->outcome != ToolOutcome::kInterrupted) continue;
    add_stop(before, ended->call, batch);
    // Nobody waits for it any more, and it may be there, or go on, all the same.
    const Call* call = before.find_call(ended->call);
    if (call == nullptr) continue;
    if (call->name == kSpawnAgent) add(Chores::kStopSession, child_of(call->seq), world_.node);
    if (call->name == kProvision)
      if (const auto arguments = read_provision(call->input))
        add(Chores::kDestroySandbox, order_for(before, *call, *arguments).sandbox, before.node);
  }
}

// A command may run on in a sandbox that stays. One that goes takes it along.
void Driver::add_stop(const State& before, Seq seq, Batch& batch) const {
  const Call* call = before.find_call(seq);
  if (call == nullptr || before.node != world_.node) return;
  std::string sandbox;
  if (is_machine_tool(call->name)) {
    sandbox = machine_id_of(machine_name(before));
  } else if (call->name == kExecute) {
    const auto arguments = read_execute(call->input);
    if (!arguments) return;
    const auto found =
        before.sandboxes.find(arguments->sandbox.empty() ? call->sandbox : arguments->sandbox);
    if (found == before.sandboxes.end() || !state_.has_sandbox(found->second.id)) return;
    sandbox = found->second.id;
  } else {
    return;
  }
  batch.chores.push_back({.id = fmt::format("{}-{}", Chores::kStopCommand, call_id(seq)),
                          .project = lease_.project,
                          .session = lease_.session,
                          .kind = std::string(Chores::kStopCommand),
                          .what = fmt::format("{} {}", sandbox, call_id(seq)),
                          .node = world_.node});
}

// The store will never take what came of some work. The session hears that, and goes on.
void Driver::put_back(std::vector<Item> items) {
  LOG_ERROR("the store does not take what happened", {"session", lease_.session},
            {"error", store_error_});
  std::vector<Item> smaller;
  for (Item& item : items) {
    if (item.receipt) {
      item.receipt->result = store_error_;
      item.receipt->done.set();
    } else if (item.effect == 0) {
      smaller.push_back(std::move(item));
    } else if (state_.asked && state_.asked->seq == item.effect) {
      smaller.push_back({.events = {ModelFailed{.asked = item.effect,
                                                .trouble = Trouble::kLasting,
                                                .message = "the answer cannot be stored",
                                                .unpaid = true}},
                         .effect = item.effect});
    } else if (state_.equipping == item.effect) {
      smaller.push_back({.events = {Equipped{.asked = item.effect}}, .effect = item.effect});
    } else if (state_.find_access(item.effect) != nullptr) {
      smaller.push_back(std::move(item));
    } else {
      smaller.push_back({.events = {ToolEnded{.call = item.effect,
                                              .is_error = true,
                                              .text = "It was done, but what came of it cannot be "
                                                      "stored."}},
                         .effect = item.effect});
    }
  }
  std::ranges::move(inbox_, std::back_inserter(smaller));
  inbox_ = std::move(smaller);
}

void Driver::take_item(Item& item, std::int64_t now_ms, Batch& batch) {
  if (item.effect != 0 && !is_waited_for(item.effect)) return;
  if (item.receipt) {
    const Seq before = state_.head;
    item.receipt->result = take_inputs(item.events, now_ms, batch);
    if (!item.handed_over.empty() && state_.head != before)
      batch.taken.push_back({.id = item.handed_over, .seqs = *item.receipt->result});
    return;
  }
  for (Event& event : item.events) {
    batch.events.push_back({.seq = state_.head + 1, .at_ms = now_ms, .event = std::move(event)});
    fold(state_, batch.events.back());
  }
  std::ranges::move(item.blobs, std::back_inserter(batch.blobs));
}

// Each is judged after those before it. When one of them is refused, none of them was said.
Result<std::vector<Seq>> Driver::take_inputs(std::vector<Event>& inputs, std::int64_t now_ms,
                                             Batch& batch) {
  const State before = state_;
  const std::size_t events_before = batch.events.size();
  std::vector<Seq> numbers;
  for (Event& input : inputs) {
    const auto number = check_input(input);
    if (!number) {
      state_ = before;
      batch.events.resize(events_before);
      return number.error();
    }
    numbers.push_back(*number);
    if (*number != state_.head + 1) continue;  // said long ago
    batch.events.push_back({.seq = *number, .at_ms = now_ms, .event = std::move(input)});
    fold(state_, batch.events.back());
  }
  return numbers;
}

Result<void> Driver::check(std::vector<Event> inputs) {
  const State before = state_;
  Batch unused;
  auto taken = take_inputs(inputs, world_.now_ms(), unused);
  state_ = before;
  if (!taken) return taken.error();
  return {};
}

// The number that it will have, or the one that it has had for long.
Result<Seq> Driver::check_input(const Event& event) const {
  // What is under way is brought to its end.
  const bool is_of_people =
      std::holds_alternative<UserMessage>(event) || std::holds_alternative<OutcomeDefined>(event) ||
      std::holds_alternative<AgentChanged>(event) || std::holds_alternative<AccessAsked>(event);
  if (state_.head >= (is_of_people ? kEventsOfWorkMax : kEventsTakenMax))
    return make_error(ErrorCode::kInvalid, "add to session",
                      "the session has as many events as one may have; go on in a new one");
  if (const auto* message = std::get_if<UserMessage>(&event)) {
    if (const auto known = state_.dedupe.find(message->dedupe);
        !message->dedupe.empty() && known != state_.dedupe.end())
      return known->second;
    TRY_VOID(check_room(*message));
  }
  if (const auto* outcome = std::get_if<OutcomeDefined>(&event)) {
    if (const auto known = state_.dedupe.find(outcome->id); known != state_.dedupe.end())
      return known->second;
    if (state_.outcome && state_.turn_open)
      return make_error(ErrorCode::kInvalid, "define outcome",
                        "the session works toward an outcome already; interrupt it first");
  }
  if (const auto* charged = std::get_if<AgentCharged>(&event))
    if (const auto known = state_.charged.find(charged->agent); known != state_.charged.end())
      return known->second;
  if (const auto* thread = std::get_if<ThreadArchived>(&event))
    if (const auto known = state_.archived_threads.find(thread->call);
        known != state_.archived_threads.end())
      return known->second;
  if (const auto* updated = std::get_if<Updated>(&event);
      updated != nullptr && updated->number <= state_.updates)
    return make_error(ErrorCode::kConflict, "update session",
                      "the session was changed meanwhile; read it again");
  if (const auto* answer = std::get_if<UserAnswer>(&event)) {
    const Call* call = state_.find_call(answer->call);
    if (call == nullptr || !call->is_open() || call->name != kAskHuman)
      return make_error(ErrorCode::kInvalid, "answer question",
                        "nobody waits for an answer to this call");
  }
  if (const auto* asked = std::get_if<AccessAsked>(&event)) {
    if (const auto known = state_.access_asked.find(asked->request);
        known != state_.access_asked.end())
      return known->second;
    if (state_.access.size() >= kAccessWaitsMax)
      return make_error(ErrorCode::kLimit, "ask for access",
                        "people are asked for as much as they may be asked for at once");
  }
  if (const auto* charged = std::get_if<ModelCharged>(&event))
    if (!state_.unpaid.contains(charged->question)) return state_.head;
  if (const auto* ended = std::get_if<AccessEnded>(&event))
    if (state_.find_access(ended->request) == nullptr) return state_.head;
  if (const auto* decision = std::get_if<UserDecision>(&event)) {
    const AccessWait* access = state_.find_access(decision->call);
    if (access == nullptr || access->decision)
      TRY_VOID(expect_waiting(decision->call, WaitsFor::kDecision));
  }
  if (const auto* result = std::get_if<UserToolResult>(&event))
    TRY_VOID(expect_waiting(result->call, WaitsFor::kResult));
  if (const auto* changed = std::get_if<AgentChanged>(&event);
      changed != nullptr && state_.turn_open && !is_same_but_budget(changed->agent, state_.agent))
    return make_error(ErrorCode::kConflict, "change agent",
                      "the session is at work; interrupt it first");
  if (const auto* released = std::get_if<SandboxReleased>(&event)) {
    if (state_.turn_open)
      return make_error(ErrorCode::kConflict, "release sandbox", "the session is at work");
    // The session has left it behind when it moved here.
    if (!state_.has_sandbox(released->sandbox) && state_.moves > 0) return state_.head;
    if (!state_.has_sandbox(released->sandbox))
      return make_error(ErrorCode::kInvalid, "release sandbox", "it is none of the session's");
  }
  return state_.head + 1;
}

Result<void> Driver::expect_waiting(Seq seq, WaitsFor whom) const {
  const Call* call = state_.find_call(seq);
  if (call != nullptr && call->is_open() && call->waits_for == whom && call->name != kAskHuman)
    return {};
  return make_error(ErrorCode::kInvalid, "answer call",
                    whom == WaitsFor::kDecision ? "nobody waits for a decision on this call"
                                                : "nobody waits for a result of this call");
}

// What nobody has read yet is held in memory, and goes to the model in one piece.
Result<void> Driver::check_room(const UserMessage& message) const {
  constexpr std::size_t kUnreadMax = 500;
  std::size_t bytes = message.content.size();
  for (const UserMessage& unread : state_.unread) bytes += unread.content.size();
  if (bytes <= kUnreadBytesMax && state_.unread.size() < kUnreadMax) return {};
  return make_error(ErrorCode::kLimit, "add to session",
                    "the agent has not read what was sent before; wait for it, or interrupt it");
}

bool Driver::is_waited_for(Seq effect) const {
  if (state_.asked && state_.asked->seq == effect) return true;
  if (state_.equipping == effect) return true;
  if (const AccessWait* access = state_.find_access(effect)) return access->decision.has_value();
  const Call* call = state_.find_call(effect);
  return call != nullptr && call->is_open();
}

Task<Driver::Stored> Driver::store(const Batch& batch, bool may_be_refused) {
  bool may_be_there = false;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const auto appended = co_await world_.log.append(batch);
    if (appended) co_return Stored::kYes;
    store_error_ = appended.error();
    may_be_there |= store_error_.code == ErrorCode::kTimeout;
    bool is_known = false;  // whether it is there
    if (may_be_there) {
      const auto there = co_await is_stored(batch);
      if (there && *there) co_return Stored::kYes;
      is_known = there.has_value();
    }
    if (store_error_.code == ErrorCode::kConflict) co_return Stored::kLost;
    // This batch will never be taken: if it is not there by now, it never was. Of one that waits
    // somewhere the log would say so to whoever appends next.
    const bool is_final =
        store_error_.code == ErrorCode::kLimit || store_error_.code == ErrorCode::kInvalid;
    if (is_final && !(may_be_there && !is_known)) co_return Stored::kRefused;
    if (may_be_refused && !may_be_there) co_return Stored::kRefused;
    LOG_WARN("cannot store what happened; trying again", {"session", lease_.session},
             {"error", store_error_});
    co_await world_.loop.sleep_for(pause);
  }
}

Task<Result<bool>> Driver::is_stored(const Batch& batch) {
  CO_TRY(const auto there,
         co_await world_.log.read(lease_.session, batch.events.front().seq - 1,
                                  static_cast<std::int64_t>(batch.events.size())));
  co_return there == batch.events;
}

void Driver::finish(Stored stored, Batch& batch, std::vector<Item>& items, Error error) {
  if (stored == Stored::kLost) {
    LOG_INFO("session continues elsewhere", {"session", lease_.session});
    over_ = true;
    error = make_error(ErrorCode::kUnavailable, "add to session",
                       "the session is being moved; try again");
  }
  for (Item& item : items) {
    if (!item.receipt) continue;
    if (stored != Stored::kYes && item.receipt->result) item.receipt->result = error;
    item.receipt->done.set();
  }
  if (stored != Stored::kYes || batch.events.empty()) return;
  summary_ = batch.summary;
  world_.audience.on_events(lease_.session, batch.events);
  // First what nobody waits for is given up: what ends it outside must not come before it.
  match_effects();
  for (const Chore& chore : batch.chores)
    if (chore.node == world_.node) chores_.begin(chore);
}

// What runs becomes what is waited for.
void Driver::match_effects() {
  for (auto effect = effects_.begin(); effect != effects_.end();) {
    if (is_waited_for(effect->first))
      ++effect;
    else
      effect = effects_.erase(effect);
  }
  drop_prepared();
  const auto begin = [this](Seq seq, Task<> task) {
    auto& effect = effects_[seq];
    effect = std::make_unique<Effect>(world_.loop);
    effect->group.spawn(std::move(task));
  };
  if (state_.asked && !effects_.contains(state_.asked->seq))
    begin(state_.asked->seq, ask_model(*state_.asked));
  if (state_.equipping && !effects_.contains(*state_.equipping))
    begin(*state_.equipping, equip(*state_.equipping));
  for (const AccessWait& access : state_.access)
    if (access.decision && !effects_.contains(access.seq))
      begin(access.seq, carry_out_decision(access.seq));
  for (const Call& call : state_.calls)
    if (call.is_open() && call.waits_for == WaitsFor::kNobody && !effects_.contains(call.seq))
      begin(call.seq, run_call(call.seq));
}

}  // namespace pons::session
