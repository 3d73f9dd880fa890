#include "pons/session/sessions.h"

#include <malloc.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "driver.h"
#include "feed.h"
#include "pons/base/id.h"
#include "pons/base/log.h"

namespace pons::session {

namespace {

struct SessionTag {
  static constexpr std::string_view kPrefix = "ses";
};

constexpr Duration kBetweenNews = std::chrono::seconds(5);
constexpr std::int64_t kReadAtOnce = 500;
// After a restart there may be thousands; the store also has others to serve.
constexpr int kAdoptedAtOnce = 16;
constexpr std::int64_t kListedAtOnce = 2'000;

Summary summary_of(const NewSession& wish, const State& state, std::int64_t now_ms) {
  return {.id = wish.id,
          .project = wish.project,
          .agent = wish.agent.name,
          .parent = wish.parent,
          .parent_call = wish.parent_call,
          .title = wish.title,
          .status = status_of(state),
          .ended = state.ended ? std::string(name_of(*state.ended)) : std::string(),
          .head = state.head,
          .created_ms = now_ms,
          .updated_ms = now_ms,
          .usage = state.usage};
}

}  // namespace

Task<Result<std::vector<StoredEvent>>> Sessions::read_all(std::string session) {
  std::vector<StoredEvent> all;
  for (;;) {
    CO_TRY(auto page,
           co_await world_.log.read(session, all.empty() ? 0 : all.back().seq, kReadAtOnce));
    if (page.empty()) break;
    std::ranges::move(page, std::back_inserter(all));
    if (all.back().seq > kEventsReadMax)
      co_return make_error(ErrorCode::kLimit, "read session", "the session has too many events");
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].seq != static_cast<Seq>(i) + 1)
      co_return make_error(ErrorCode::kIo, "read session",
                           "its log has a gap: restore the store from a backup");
  co_return all;
}

struct Sessions::Loaded {
  Loaded(World& world, Chores& chores, Lease lease, State state, Summary summary)
      : driver(world, chores, std::move(lease), std::move(state), std::move(summary)),
        group(world.loop) {}
  Driver driver;
  linux::TaskGroup group;  // last: what runs in it uses the driver
};

Sessions::Sessions(linux::Loop& loop, const Clock& clock, Log& log, Model& model, Hands& hands,
                   Boundary& boundary, Extras extras, Sharing sharing)
    : world_{.loop = loop,
             .clock = clock,
             .log = log,
             .model = model,
             .hands = hands,
             .boundary = boundary,
             .audience = *this,
             .extras = extras,
             .run_child = [this](ChildOrder order) { return run_child(std::move(order)); },
             .stop_child = [this](std::string id) { return stop_child(std::move(id)); },
             .charge_question = [this](Chore chore) { return charge_question(std::move(chore)); },
             .node = sharing.node},
      chores_(std::make_unique<Chores>(world_)),
      sharing_(std::move(sharing)),
      has_inputs_(loop),
      tasks_(loop) {}

Sessions::~Sessions() {
  // Each of them uses what stands before it.
  tasks_.cancel_all();
  loaded_.clear();
  chores_.reset();
}

Sessions::Loaded& Sessions::start(Lease lease, State state, Summary summary) {
  const std::string id = lease.session;
  auto& place = loaded_[id];
  place = std::make_unique<Loaded>(world_, *chores_, std::move(lease), std::move(state),
                                   std::move(summary));
  place->group.spawn(place->driver.run());
  return *place;
}

// While it lives, whoever wants the session waits: it is being loaded, or made. One of several for
// the same session counts.
class Sessions::Loading {
 public:
  Loading(Sessions& all, std::string session) : all_(all), session_(std::move(session)) {
    const auto [place, is_first] = all_.loading_.try_emplace(session_);
    if (is_first) done_ = place->second = std::make_shared<linux::Event>(all_.world_.loop);
  }
  ~Loading() {
    if (!done_) return;
    all_.loading_.erase(session_);
    done_->set();
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

 private:
  Sessions& all_;
  std::string session_;
  std::shared_ptr<linux::Event> done_;
};

Task<Result<Summary>> Sessions::create(NewSession wish) {
  if (wish.id.empty()) wish.id = Id<SessionTag>::generate().text();
  // Stored, and not yet here, it would look like one that a dead process has left.
  std::optional<Loading> making(std::in_place, *this, wish.id);
  const std::int64_t now_ms = world_.now_ms();
  State state;
  std::vector<StoredEvent> events;
  const auto add_event = [&](Event event) {
    events.push_back({.seq = state.head + 1, .at_ms = now_ms, .event = std::move(event)});
    session::fold(state, events.back());
  };
  add_event(Created{.agent = wish.agent,
                    .parent = wish.parent,
                    .parent_call = wish.parent_call,
                    .untrusted = wish.untrusted,
                    .node = world_.node});
  if (wish.message) add_event(*wish.message);
  settle(state, now_ms, events);
  Summary summary = summary_of(wish, state, now_ms);
  // A machine that it uses is where the session is that wanted it.
  if (!wish.agent.machine_of.empty()) summary.home = world_.node;
  auto lease = co_await world_.log.create(summary, events);
  if (!lease && lease.error().code == ErrorCode::kConflict) {
    const auto found = co_await world_.log.find(wish.id);
    making.reset();  // whoever adds to it waits for that
    if (found && found->project == wish.project && found->parent == wish.parent)
      co_return co_await add_to_made(std::move(wish), *found);
    co_return make_error(ErrorCode::kConflict, "create session",
                         found ? "the id is taken" : "there is no such project");
  }
  if (!lease) co_return lease.error();
  on_events(wish.id, events);
  if (state.turn_open) start(std::move(*lease), std::move(state), summary);
  co_return summary;
}

// Whoever asks again has not heard the answer, or has something new to say.
Task<Result<Summary>> Sessions::add_to_made(NewSession wish, Summary found) {
  // An agent of another has one task, which is stored with its first event.
  if (!wish.message || !wish.parent.empty()) co_return found;
  if (wish.message->dedupe.empty())
    co_return make_error(ErrorCode::kConflict, "create session",
                         "there is a session of this id already, and nobody can tell whether it "
                         "has this message: send it with a dedupe key, or to the session itself");
  const auto added = co_await add(wish.id, *std::move(wish.message));
  if (!added && added.error().code == ErrorCode::kInvalid)
    co_return make_error(ErrorCode::kConflict, "create session", added.error().message);
  if (!added) co_return added.error();
  co_return co_await world_.log.find(std::move(wish.id));
}

// Several who ask at the same time wait for one.
Task<Result<Sessions::Loaded*>> Sessions::load(const std::string& session, Take how) {
  for (;;) {
    if (is_here(session)) co_return loaded_.at(session).get();
    const auto under_way = loading_.find(session);
    if (under_way == loading_.end()) break;
    const auto done = under_way->second;
    co_await done->wait(kNever);
  }
  const Loading loading(*this, session);
  CO_TRY(auto lease, co_await world_.log.take(session, how));
  co_return co_await load_taken(std::move(lease));
}

Task<Result<Sessions::Loaded*>> Sessions::load_taken(Lease lease) {
  CO_TRY(auto summary, co_await world_.log.find(lease.session));
  CO_TRY(const auto events, co_await read_all(lease.session));
  co_return &start(std::move(lease), session::fold(State{}, events), std::move(summary));
}

Task<Result<Seq>> Sessions::add(std::string session, Event input) {
  std::vector<Event> inputs;
  inputs.push_back(std::move(input));
  CO_TRY(const auto numbers, co_await add_all(std::move(session), std::move(inputs)));
  co_return numbers.front();
}

Task<Result<std::vector<Seq>>> Sessions::add_all(std::string session, std::vector<Event> inputs) {
  auto added = co_await add_here(session, inputs, {});
  const bool is_elsewhere =
      is_shared() && !added && added.error().code == ErrorCode::kConflict && !is_here(session);
  if (!is_elsewhere) co_return added;
  co_return co_await hand_over(std::move(session), std::move(inputs));
}

bool Sessions::is_here(const std::string& session) const {
  const auto found = loaded_.find(session);
  return found != loaded_.end() && !found->second->driver.is_over();
}

Task<Result<std::vector<Seq>>> Sessions::add_here(const std::string& session,
                                                  std::vector<Event> inputs,
                                                  std::string handed_over) {
  // A session may go to rest, or elsewhere, between finding it and writing to it.
  constexpr int kTries = 3;
  Result<std::vector<Seq>> added = std::vector<Seq>();
  for (int i = 0; i < kTries && !inputs.empty(); ++i) {
    CO_TRY(Loaded * loaded, co_await load(session));
    added = co_await loaded->driver.add(inputs, handed_over);
    if (added || added.error().code != ErrorCode::kUnavailable) break;
  }
  co_return added;
}

Task<Result<void>> Sessions::check_all(std::string session, std::vector<Event> inputs) {
  const auto loaded = co_await load(session);
  if (!loaded && is_shared() && loaded.error().code == ErrorCode::kConflict)
    co_return co_await check_elsewhere(std::move(session), std::move(inputs));
  if (!loaded) co_return loaded.error();
  co_return (*loaded)->driver.check(std::move(inputs));
}

Task<Result<Summary>> Sessions::fork(std::string session, Seq at, std::string project) {
  CO_TRY(const auto original, co_await world_.log.find(session));
  if (original.project != project)
    co_return make_error(ErrorCode::kNotFound, "fork session", "there is no session of this id");
  CO_TRY(auto events, co_await read_all(session));
  if (at < 0 || at > static_cast<Seq>(events.size()))
    co_return make_error(ErrorCode::kInvalid, "fork session",
                         "the session has no event of this number");
  // It goes on where the other one has ended.
  if (!events.empty() && std::holds_alternative<Archived>(events.back().event)) events.pop_back();
  if (at == 0 || at > static_cast<Seq>(events.size())) at = static_cast<Seq>(events.size());
  const bool has_moved_on = std::any_of(
      events.begin() + at, events.end(),
      [](const StoredEvent& stored) { return std::holds_alternative<ToolCalled>(stored.event); });
  events.resize(static_cast<std::size_t>(at));
  State state = session::fold(State{}, events);
  // A fork would work on the very machine that its session works on.
  if (!state.agent.machine_of.empty())
    co_return make_error(ErrorCode::kInvalid, "fork session",
                         "this is a thread of another session, on whose machine it works; fork "
                         "that session");
  const NewSession wish{.id = Id<SessionTag>::generate().text(),
                        .project = project,
                        .agent = state.agent,
                        .title = original.title};
  auto sandboxes = co_await copy_sandboxes(session, state, has_moved_on, wish);
  const std::int64_t now_ms = world_.now_ms();
  const auto add_event = [&](Event event) {
    events.push_back({.seq = state.head + 1, .at_ms = now_ms, .event = std::move(event)});
    session::fold(state, events.back());
  };
  add_event(Forked{.from = session, .at = state.head});
  for (SandboxBound& sandbox : sandboxes) add_event(std::move(sandbox));
  Summary summary = summary_of(wish, state, now_ms);
  if (!state.sandboxes.empty()) summary.home = world_.node;
  const auto created = co_await world_.log.create(summary, std::move(events));
  if (created) co_return summary;
  for (const auto& [name, sandbox] : state.sandboxes) chores_->drop_sandbox(sandbox.id);
  co_return created.error();
}

// The sandboxes that the session had then, as long as they live: with the files of now when nothing
// has been run since, otherwise with those of the last checkpoint before.
Task<std::vector<SandboxBound>> Sessions::copy_sandboxes(const std::string& original,
                                                         const State& then, bool has_moved_on,
                                                         const NewSession& wish) {
  std::vector<SandboxBound> copied;
  for (const auto& [name, sandbox] : then.sandboxes) {
    if (sandbox.node != world_.node) continue;  // on another machine
    if (has_moved_on && sandbox.checkpoints.empty()) continue;
    // The copy of the session's machine is the new one's machine.
    const bool is_machine = sandbox.id == machine_id_of(machine_name_of(original, then.moves));
    const std::string id = is_machine ? machine_id_of(machine_name_of(wish.id, then.moves))
                                      : sandbox_id_for(fmt::format("{}:{}", wish.id, name));
    const auto made = co_await world_.hands.copy(
        {.sandbox = id,
         .from = sandbox.id,
         .checkpoint = has_moved_on ? sandbox.checkpoints.back() : std::string(),
         .sandbox_template = sandbox.sandbox_template,
         .session = wish.id,
         .project = wish.project});
    if (!made) {
      LOG_DEBUG("a fork goes without a sandbox", {"session", wish.id}, {"error", made.error()});
      continue;
    }
    copied.push_back({.sandbox = id,
                      .sandbox_template = sandbox.sandbox_template,
                      .kept = sandbox.kept,
                      .known_as = name,
                      .node = world_.node});
  }
  co_return copied;
}

Task<Result<void>> Sessions::archive(std::string session, Farewell farewell) {
  // What was kept for the next turn is kept for nobody. The log says so first, so that it goes
  // whoever dies meanwhile.
  CO_TRY(const Loaded* loaded, co_await load(session, Take::kAnyway));
  std::vector<std::string> kept;
  for (const auto& [name, sandbox] : loaded->driver.state().sandboxes) kept.push_back(sandbox.id);
  if (status_of(loaded->driver.state()) == Status::kIdle)
    for (std::string& id : kept) CO_TRY_VOID(co_await add(session, SandboxReleased{std::move(id)}));
  const auto archived = co_await world_.log.archive(session, world_.now_ms(), farewell);
  if (!archived) {
    look_again(session);  // it may have been all the same
    co_return archived.error();
  }
  if (!archived->empty()) on_events(session, *archived);
  world_.model.forget(session);
  co_return {};
}

void Sessions::forget(const std::string& session) {
  end_followers(session);
  if (sharing_.bell != nullptr) sharing_.bell->ring(fmt::format("{}{}", kGoneTopic, session));
}

void Sessions::end_followers(std::string_view session) {
  if (const auto feed = feeds_.find(std::string(session)); feed != feeds_.end())
    for (FeedFollower* follower : feed->second->followers) follower->end();
}

// ---- over restarts

Task<> Sessions::keep_going() {
  tasks_.spawn(chores_->keep_going());
  if (is_shared()) {
    // Ahead of everything else: who has a session must be seen to live.
    (void)co_await world_.log.renew();
    tasks_.spawn(keep_renewing());
    tasks_.spawn(keep_looking());
  }
  for (;;) {
    co_await adopt_all();
    co_await world_.loop.sleep_for(sharing_.between_looks);
    forget_resting();
    if (!is_shared() && !loaded_.empty()) (void)co_await world_.log.renew();
  }
}

// By itself: taking up thousands of sessions takes longer than others wait for a sign of life.
Task<> Sessions::keep_renewing() {
  for (;;) {
    co_await world_.loop.sleep_for(sharing_.between_looks);
    if (const auto renewed = co_await world_.log.renew(); !renewed)
      LOG_WARN("cannot say that this process lives; others may take its sessions",
               {"error", renewed.error()});
  }
}

// Those that are at work, and not here. What is here, too, is the store's answer: however many that
// are, behind them come others.
Task<Result<std::vector<std::string>>> Sessions::find_left() {
  std::vector<std::string> left;
  for (std::string after;;) {
    CO_TRY(auto page, co_await world_.log.list_orphans(after, kListedAtOnce));
    const bool is_last = std::ssize(page) < kListedAtOnce;
    if (!page.empty()) after = page.back();
    for (std::string& id : page)
      if (!loaded_.contains(id)) left.push_back(std::move(id));
    if (is_last) co_return left;
  }
}

Task<> Sessions::adopt_all() {
  auto orphans = co_await find_left();
  if (!orphans || orphans->empty()) co_return;
  linux::TaskGroup adopting(world_.loop);
  // Those of processes that are gone, a few at a time: others want some, too.
  for (bool is_last = !is_shared(); !is_last;) {
    const auto taken = co_await world_.log.claim(kAdoptedAtOnce);
    is_last = !taken || taken->size() < static_cast<std::size_t>(kAdoptedAtOnce);
    if (!taken) break;
    for (const Lease& lease : *taken) adopting.spawn(adopt_taken(lease));
    co_await adopting.wait_until_empty(kNever);
  }
  // And its own, of the process before this one.
  const auto left = std::make_shared<std::vector<std::string>>(std::move(*orphans));
  std::erase_if(*left, [this](const auto& id) { return loaded_.contains(id); });
  for (int i = 0; i < kAdoptedAtOnce; ++i) adopting.spawn(adopt(left));
  co_await adopting.wait_until_empty(kNever);
}

Task<> Sessions::adopt_taken(Lease lease) {
  const std::string session = lease.session;
  // Somebody here who asks for it has the later lease.
  if (is_here(session) || loading_.contains(session)) co_return;
  const Loading loading(*this, session);
  const auto loaded = co_await load_taken(std::move(lease));
  if (!loaded)
    LOG_ERROR("cannot take a session over", {"session", session}, {"error", loaded.error()});
  else
    LOG_INFO("took a session over", {"session", session});
}

// One after the other, until none is left.
Task<> Sessions::adopt(std::shared_ptr<std::vector<std::string>> left) {
  while (!left->empty()) {
    const std::string session = std::move(left->back());
    left->pop_back();
    const auto loaded = co_await load(session);
    if (!loaded && loaded.error().code != ErrorCode::kConflict)
      LOG_ERROR("cannot take a session up again", {"session", session}, {"error", loaded.error()});
  }
}

void Sessions::forget_resting() {
  const auto forgotten =
      std::erase_if(loaded_, [](const auto& entry) { return entry.second->driver.is_over(); });
  // What many conversations took lies in pieces that nobody else would ask for soon.
  constexpr std::size_t kMany = 100;
  if (forgotten >= kMany) malloc_trim(0);
}

// ---- agents of agents

Task<Result<void>> Sessions::stop_child(std::string session) {
  CO_TRY_VOID(co_await add_if_open(session, Interrupted{}));
  // What it has used is its caller's all the same.
  const auto child = co_await world_.log.find(session);
  if (!child && child.error().code != ErrorCode::kNotFound) co_return child.error();
  if (!child || child->parent.empty()) co_return {};
  CO_TRY(const Usage usage, co_await find_use(session));
  if (usage == Usage{}) co_return {};
  co_return co_await add_if_open(child->parent,
                                 AgentCharged{.agent = std::move(session), .usage = usage});
}

// All of it: kUnavailable while it is not known of some question what it came to.
Task<Result<Usage>> Sessions::find_use(std::string session) {
  CO_TRY(const auto events, co_await read_all(std::move(session)));
  const State state = session::fold(State{}, events);
  if (!state.unpaid.empty())
    co_return make_error(ErrorCode::kUnavailable, "charge session",
                         "what its questions came to is not known yet");
  co_return state.usage;
}

Task<Result<void>> Sessions::charge_question(Chore chore) {
  auto [name, id] = two_words(chore.what);
  CO_TRY(const Usage usage, co_await world_.model.end_question(std::move(id)));
  co_return co_await add_if_open(chore.session,
                                 ModelCharged{.question = std::move(name), .usage = usage});
}

// Well, too, when there is no such session, or when it is archived.
Task<Result<void>> Sessions::add_if_open(std::string session, Event input) {
  const auto added = co_await add(std::move(session), std::move(input));
  if (added || added.error().code == ErrorCode::kNotFound ||
      added.error().code == ErrorCode::kInvalid)
    co_return {};
  co_return added.error();
}

Task<Result<ChildReport>> Sessions::run_child(ChildOrder order) {
  const std::string id = order.session;
  CO_TRY_VOID(co_await create({.id = id,
                               .project = order.project,
                               .agent = std::move(order.agent),
                               .title = {},
                               .parent = order.parent,
                               .parent_call = order.parent_call,
                               .untrusted = order.untrusted,
                               .message = message_of(order.task, order.parent)}));
  const auto follower = follow(id, {.after = 0, .with_deltas = false});
  // It is done when it rests at the end of all that is heard of it, and all is paid: whoever is
  // late may hear of its end together with what has set it to work again.
  State child;
  ChildReport report;
  for (bool is_archived = false;;) {
    CO_TRY(const auto news, co_await follower->next(world_.loop.now() + kBetweenNews));
    if (order.on_events && !news.events.empty()) order.on_events(news.events);
    for (const StoredEvent& stored : news.events) {
      session::fold(child, stored);
      is_archived |= std::holds_alternative<Archived>(stored.event);  // nobody pays any more
      if (const auto* said = std::get_if<Said>(&stored.event)) report.text = said->text;
      if (const auto* ended = std::get_if<ToolEnded>(&stored.event))
        report.untrusted |= ended->untrusted;
      report.untrusted |= std::holds_alternative<UserToolResult>(stored.event);
    }
    if (child.turn_open || !child.ended || !(child.unpaid.empty() || is_archived)) continue;
    report.ended = name_of(*child.ended);
    report.usage = child.usage;
    co_return report;
  }
}

}  // namespace pons::session
