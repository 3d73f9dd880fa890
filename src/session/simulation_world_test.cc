#include <algorithm>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "feed.h"
#include "pons/base/text.h"
#include "pons/linux/run_task.h"
#include "pons/linux/simulated_time.h"
#include "pons/memory/tools.h"
#include "pons/session/fold.h"
#include "pons/session/replay.h"
#include "pons/session/tools.h"
#include "simulated_extras.h"
#include "simulated_hands.h"
#include "simulated_log.h"
#include "simulated_model.h"
#include "simulation.h"

namespace pons::session {

namespace {

class Simulation {
 public:
  explicit Simulation(const SimulationSettings& settings)
      : settings_(settings),
        loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        clock_(*loop_),
        fate_(*loop_, clock_, settings.seed, settings.fault, settings.one_fault),
        model_(bills_, fate_, settings.steps),
        notes_(notebook_, fate_),
        servers_(server_book_, fate_),
        desk_(desk_book_, fate_),
        boundary_(fate_) {}

  SimulationOutcome run() {
    SimulationOutcome outcome;
    outcome.finished = linux::run_to_end(*loop_, direct(outcome));
    outcome.waits = fate_.waits;
    outcome.faults = fate_.faults;
    for (const auto& [call, runs] : boxes_.runs) outcome.commands += runs;
    outcome.notes = static_cast<int>(notebook_.written.size());
    outcome.server_calls = static_cast<int>(server_book_.runs.size());
    for (auto& [id, stored] : tables_.sessions) {
      check(id, stored, outcome);
      outcome.logs.push_back(stored.events);
    }
    check_boxes(outcome);
    std::ranges::move(seen_wrong_, std::back_inserter(outcome.violations));
    return outcome;
  }

 private:
  struct Process {
    Process(Simulation& world, std::string owner)
        : node(world.settings_.rival ? owner : std::string()),
          log(world.tables_, world.fate_, world.clock_, owner),
          hands(*world.loop_, world.boxes_, world.fate_, node),
          sessions(*world.loop_, world.clock_, log, world.model_, hands, world.boundary_,
                   {.notes = &world.notes_, .servers = &world.servers_, .desk = &world.desk_},
                   {.node = node}),
          tasks(*world.loop_) {
      hands.forget_calls = world.settings_.forget_calls;
      if (world.settings_.fault > 0) hands.hang_one_in = 60;
      tasks.spawn(sessions.keep_going());
    }
    std::string node;  // among several
    SimulatedLog log;
    SimulatedHands hands;
    Sessions sessions;
    linux::TaskGroup tasks;
  };

  // ---- people, who try again until they are heard

  static AgentSpec agent_of(int number) {
    AgentSpec agent{.model = "m", .calls_per_turn = 30};
    if (number % 3 == 1) agent.context_tokens = 400;
    if (number % 4 == 3) agent.budget_tokens = 3'000;
    if (number % 2 == 0) agent.memory = {{.store = "memstore_1", .name = "notes"}};
    if (number % 5 < 2) agent.servers = {{.name = "far", .url = "https://far.example/mcp"}};
    const bool has_machine = number % 4 == 1;
    if (has_machine) agent.tools = {"bash", std::string(kAskHuman), std::string(kSpawnAgent)};
    if (number % 3 == 2) {
      agent.has_threads = true;
      agent.members = Members({helper(has_machine)});
    }
    return agent;
  }

  // Works for others, and waits for people.
  static AgentSpec helper(bool has_machine) {
    std::vector<std::string> tools = {std::string(kProvision), std::string(kExecute),
                                      std::string(kAskHuman)};
    if (has_machine) tools = {"bash", std::string(kAskHuman)};
    return {.name = "helper",
            .model = "m",
            .tools = std::move(tools),
            .asks = {std::string(kExecute)},
            .custom = {{.name = "fetch", .definition = R"({"name":"fetch"})"}},
            .calls_per_turn = 30};
  }

  Task<> talk(int number) {
    const std::string id = fmt::format("s{}-{}", number, settings_.seed);
    const int kind = static_cast<int>(settings_.seed) + number;
    for (int m = 0; m < settings_.messages; ++m) {
      const char* const manner = kind % 7 == 6 ? "for ever " : kind % 29 == 5 ? "in vain " : "";
      const std::string text = fmt::format("{}m{}-{}", manner, number, m);
      for (;;) {
        co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(3'000)));
        if (processes_.empty()) continue;
        Process& process = anyone();
        if (co_await ask(process, say(process.sessions, id, text, m == 0, kind))) break;
      }
      acknowledged_.emplace_back(id, text);
      if (fate_.pick(3) == 0) {
        co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(20'000)));
        co_await interrupt(id);
      }
    }
    ++talked_;
  }

  // They answer what they are asked, and lose patience with what takes very long.
  Task<> look_after() {
    std::map<std::string, TimePoint> at_work_since;
    for (;;) {
      co_await loop_->sleep_for(std::chrono::seconds(5 + fate_.pick(10)));
      std::vector<std::pair<std::string, Status>> all;
      for (const auto& [id, stored] : tables_.sessions) all.emplace_back(id, stored.summary.status);
      for (const auto& [id, status] : all) {
        if (is_for_people(status) && status != Status::kWaitsInThread) co_await answer(id);
        if (status == Status::kRunning && !fate_.is_calm() && fate_.pick(8) == 0) co_await wish(id);
        if (status == Status::kIdle)
          at_work_since.erase(id);
        else if (at_work_since.emplace(id, loop_->now()).first->second <
                 loop_->now() - std::chrono::minutes(20))
          co_await interrupt(id);
      }
    }
  }

  // A program in a sandbox asks, and whoever tells the session of it is not sure to be heard.
  Task<> wish(std::string id) {
    if (processes_.empty()) co_return;
    Process& process = anyone();
    if (wishes_ == 0 || fate_.pick(3) > 0) ++wishes_;
    const std::string request = fmt::format("acc_{}_{}", id, wishes_);
    if (fate_.pick(6) == 0)
      co_await ask(process, add(process.sessions, id, AccessEnded{.request = request}));
    else
      co_await ask(process, add(process.sessions, id,
                                AccessAsked{.request = request,
                                            .host = "a.example",
                                            .port = 443,
                                            .wish = R"({"host":"a.example"})",
                                            .node = process.node}));
  }

  Task<> answer(std::string id) {
    const State state = fold(State{}, tables_.sessions.at(id).events);
    for (const AccessWait& access : state.access) {
      if (access.decision || processes_.empty()) continue;
      Process& process = anyone();
      co_await ask(process, add(process.sessions, id,
                                UserDecision{.call = access.seq, .allowed = fate_.pick(3) > 0}));
    }
    for (const Call& call : state.calls) {
      if (!call.is_open() || call.waits_for == WaitsFor::kNobody || processes_.empty()) continue;
      Event answer = UserAnswer{.call = call.seq, .text = "it"};
      if (call.waits_for == WaitsFor::kDecision)
        answer = UserDecision{.call = call.seq, .allowed = fate_.pick(4) > 0};
      else if (call.name != kAskHuman)
        answer = UserToolResult{.call = call.seq, .content = "[]"};
      Process& process = anyone();
      co_await ask(process, add(process.sessions, id, std::move(answer)));
    }
  }

  Task<> interrupt(std::string id) {
    if (processes_.empty()) co_return;
    Process& process = anyone();
    co_await ask(process, add(process.sessions, std::move(id), Interrupted{}));
  }

  // A request ends with the process that it is made to.
  struct Reply {
    explicit Reply(linux::Loop& loop) : done(loop) {}
    linux::Event done;
    bool is_good = false;
  };
  static Task<> carry(Task<bool> request, std::shared_ptr<Reply> reply) {
    reply->is_good = co_await std::move(request);
    reply->done.set();
  }
  Task<bool> ask(Process& process, Task<bool> request) {
    const auto reply = std::make_shared<Reply>(*loop_);
    process.tasks.spawn(carry(std::move(request), reply));
    co_await reply->done.wait(loop_->now() + std::chrono::seconds(100));
    co_return reply->is_good;
  }

  static Task<bool> add(Sessions& sessions, std::string id, Event input) {
    co_return (co_await sessions.add(std::move(id), std::move(input))).has_value();
  }

  Task<bool> say(Sessions& sessions, std::string id, std::string text, bool first, int kind) {
    const UserMessage message = message_of(text, text);
    if (first) {
      const auto made = co_await sessions.create(
          {.id = id, .project = "p", .agent = agent_of(kind), .message = message});
      if (made && tables_.sessions.at(id).events.size() > 1) co_return true;
      if (!made) co_return false;
    }
    std::vector<Event> all = {message};
    if (kind % 2 == 0) {  // with a word from whoever runs the agent, or not at all
      all.emplace_back(message_of(text, text + std::string(kNoteMark)));
      std::get<UserMessage>(all.back()).of_system = true;
    }
    if (kind % 5 == 1)
      all.emplace_back(OutcomeDefined{
          .id = "outcome of " + text, .description = text, .rubric = "r", .iterations_max = 3});
    co_return (co_await sessions.add_all(id, std::move(all))).has_value();
  }
  static constexpr std::string_view kNoteMark = ", said with a note";

  // Somebody who watches sees each event once, in order, whatever else happens.
  Task<> watch(Sessions& sessions, std::string id) {
    Seq after = 0;
    const auto follower = sessions.follow(id, {.after = 0});
    for (;;) {
      const auto news = co_await follower->next(loop_->now() + std::chrono::seconds(15));
      if (!news) {
        co_await loop_->sleep_for(std::chrono::seconds(1));
        continue;
      }
      const auto& events = tables_.sessions.at(id).events;
      for (const StoredEvent& stored : news->events) {
        if (stored.seq != ++after || stored.seq > static_cast<Seq>(events.size()) ||
            events[static_cast<std::size_t>(stored.seq) - 1] != stored)
          seen_wrong_.push_back(fmt::format("{}: a follower saw {} wrongly", id, stored.seq));
        after = stored.seq;
      }
    }
  }

  Process& anyone() { return *processes_[fate_.pick(processes_.size())]; }

  void start_process(const std::string& name) {
    Process& process = *processes_.emplace_back(std::make_unique<Process>(*this, name));
    for (const auto& [id, stored] : tables_.sessions)
      if (fate_.pick(2) == 0) process.tasks.spawn(watch(process.sessions, id));
  }
  void start_processes() {
    start_process("first");
    if (settings_.rival) start_process("second");
  }

  // One of two nodes is gone for a while, which may be longer than the other waits for it.
  void lose_one(SimulationOutcome& outcome) {
    if (!settings_.rival) return;
    if (processes_.size() == 2 && !fate_.is_calm() && fate_.pick(600) == 0) {
      ++outcome.crashes;
      const auto lost = processes_.begin() + static_cast<std::ptrdiff_t>(fate_.pick(2));
      lost_ = (*lost)->node;
      processes_.erase(lost);
      back_at_ = loop_->now() + std::chrono::seconds(fate_.pick(120));
    }
    if (processes_.size() == 1 && loop_->now() >= back_at_) start_process(lost_);
  }

  // ---- the run

  Task<bool> direct(SimulationOutcome& outcome) {
    start_processes();
    // A person outlives crashes, but what they were waiting for does not: they ask again.
    linux::TaskGroup people(*loop_);
    for (int i = 0; i < settings_.sessions; ++i) people.spawn(talk(i));
    people.spawn(look_after());
    const TimePoint calm = loop_->now() + std::chrono::minutes(30);
    const TimePoint end = loop_->now() + std::chrono::hours(12);
    while (loop_->now() < end) {
      co_await loop_->sleep_for(std::chrono::milliseconds(200));
      if (loop_->now() > calm) fate_.calm_down();
      lose_one(outcome);
      if (fate_.crash_wanted) {
        ++outcome.crashes;
        processes_.clear();
        fate_.crash_wanted = false;
        if (fate_.pick(4) == 0) boxes_.alive.clear();  // it was all of the host that went down
        co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(5'000)));
        start_processes();
      }
      if (is_done()) break;
    }
    const bool finished = is_done();
    people.cancel_all();
    fate_.calm_down();
    processes_.clear();
    start_processes();
    co_await loop_->sleep_for(std::chrono::minutes(2));  // for what is left to tidy up
    processes_.clear();
    co_return finished&& is_done();
  }

  // What was handed over has still to be heard, and may want people once more.
  bool is_done() const {
    return talked_ == settings_.sessions && !is_something_handed_over() &&
           std::ranges::all_of(tables_.sessions, [](const auto& entry) {
             return entry.second.summary.status == Status::kIdle;
           });
  }
  bool is_something_handed_over() const {
    return std::ranges::any_of(tables_.inputs,
                               [](const auto& input) { return !input.second.reply; });
  }

  // ---- what must hold afterwards

  void check(const std::string& id, const Tables::Stored& stored, SimulationOutcome& outcome) {
    const auto say_wrong = [&](std::string what) {
      outcome.violations.push_back(fmt::format("{}: {}", id, what));
    };
    std::set<std::pair<Seq, std::int64_t>> begun;
    for (std::size_t i = 0; i < stored.events.size(); ++i) {
      const StoredEvent& event = stored.events[i];
      if (event.seq != static_cast<Seq>(i) + 1) say_wrong("a gap in the log");
      const auto again = read_event(type_of(event.event), write_body(event.event));
      if (!again || *again != event.event)
        say_wrong(fmt::format("{} is read back differently", write_body(event.event)));
      if (const auto* called = std::get_if<ToolCalled>(&event.event);
          called != nullptr && !begun.emplace(called->asked, called->block).second)
        say_wrong(fmt::format("call {} of answer {} begins twice", called->block, called->asked));
      if (const auto* released = std::get_if<SandboxReleased>(&event.event))
        if (boxes_.alive.contains(released->sandbox) && !is_of_rivals(released->sandbox))
          say_wrong("a released sandbox lives on");
      if (write_public(event).find(SimulatedBoundary::kSecret) != std::string::npos)
        say_wrong(fmt::format("event {} shows a secret", event.seq));
    }
    outcome.moves += static_cast<int>(fold(State{}, stored.events).moves);
    for (const Divergence& divergence : replay(stored.events))
      say_wrong(fmt::format("replay differs at {}: expected {} found {}", divergence.seq,
                            divergence.expected, divergence.found));
    for (const auto& [session, text] : acknowledged_) {
      if (session != id) continue;
      const auto times = std::ranges::count_if(stored.events, [&](const StoredEvent& event) {
        const auto* message = std::get_if<UserMessage>(&event.event);
        return message != nullptr && message->dedupe == text;
      });
      if (times != 1) say_wrong(fmt::format("message {} is there {} times", text, times));
    }
    check_paid(id, stored.events, say_wrong);
    check_said_together(stored.events, say_wrong);
    check_threads(stored.events, say_wrong);
    check_access(stored.events, say_wrong);
  }

  // What its questions came to is what the session has used by itself, whatever became of them.
  void check_paid(const std::string& id, const std::vector<StoredEvent>& events,
                  auto& say_wrong) const {
    Usage used = fold(State{}, events).usage;
    const auto take_off = [&](const Usage& usage) {
      used += {.input = -usage.input, .output = -usage.output};
    };
    for (const StoredEvent& stored : events) {
      if (const auto* ended = std::get_if<ToolEnded>(&stored.event)) take_off(ended->usage);
      if (const auto* charged = std::get_if<AgentCharged>(&stored.event)) take_off(charged->usage);
    }
    Usage billed;
    for (const auto& [question, bill] : bills_.all)
      if (bill.session == id) billed += bill.usage;
    if (used != billed)
      say_wrong(fmt::format("has paid {} and {} of {} and {}", used.input, used.output,
                            billed.input, billed.output));
  }

  // Each wish is asked once and ends once, and as the desk has it.
  void check_access(const std::vector<StoredEvent>& events, auto& say_wrong) const {
    std::set<std::string> open;
    std::set<std::string> over;
    for (const StoredEvent& stored : events) {
      if (const auto* asked = std::get_if<AccessAsked>(&stored.event);
          asked != nullptr && !open.insert(asked->request).second)
        say_wrong(asked->request + " is asked twice");
      const auto* ended = std::get_if<AccessEnded>(&stored.event);
      if (ended == nullptr) continue;
      if (!open.contains(ended->request) || !over.insert(ended->request).second)
        say_wrong(ended->request + " ends without having been asked, or twice");
      const auto decided = desk_book_.decided.find(ended->request);
      const bool is_allowed = decided != desk_book_.decided.end() && decided->second;
      if (ended->outcome == AccessOutcome::kAllowed && !is_allowed)
        say_wrong(ended->request + " is said to be allowed");
    }
    if (open.size() != over.size()) say_wrong("a wish waits in a session that rests");
  }

  // A note stands directly behind the message that it was said with.
  static void check_said_together(const std::vector<StoredEvent>& events, auto& say_wrong) {
    std::set<std::string> outcomes;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (const auto* outcome = std::get_if<OutcomeDefined>(&events[i].event);
          outcome != nullptr && !outcomes.insert(outcome->id).second)
        say_wrong(outcome->id + " is there twice");
      const auto* note = std::get_if<UserMessage>(&events[i].event);
      if (note == nullptr || !note->of_system) continue;
      const auto* before = i == 0 ? nullptr : std::get_if<UserMessage>(&events[i - 1].event);
      if (before == nullptr || before->dedupe + std::string(kNoteMark) != note->dedupe)
        say_wrong(note->dedupe + " is there without its message");
    }
  }

  // Of what an agent does the log tells once, in its order, and that it ended before its call has.
  static void check_threads(const std::vector<StoredEvent>& events, auto& say_wrong) {
    std::map<Seq, ThreadChanged> threads;
    for (const StoredEvent& stored : events) {
      if (const auto* changed = std::get_if<ThreadChanged>(&stored.event)) {
        ThreadChanged& known = threads[changed->call];
        if (changed->seen <= known.seen) say_wrong("a thread goes back");
        known = *changed;
      }
      const auto* ended = std::get_if<ToolEnded>(&stored.event);
      if (ended != nullptr && ended->outcome == ToolOutcome::kDone &&
          threads.contains(ended->call) && threads[ended->call].status != ThreadStatus::kEnded)
        say_wrong("a call ends before its thread has");
    }
  }

  void check_boxes(SimulationOutcome& outcome) const {
    for (const auto& [call, runs] : boxes_.runs)
      if (runs > 1) outcome.violations.push_back(fmt::format("{} was run {} times", call, runs));
    // The store writes once for a call; so there must be one call for what the model asked for.
    for (const std::string& call : notebook_.written)
      if (!was_begun(call)) outcome.violations.push_back(fmt::format("{} was never begun", call));
    for (const auto& [call, runs] : server_book_.runs)
      if (runs > 1)
        outcome.violations.push_back(fmt::format("a server did {} {} times", call, runs));
    if (!tables_.chores.empty()) outcome.violations.push_back("chores are left over");
    outcome.handed_over = static_cast<int>(tables_.inputs.size());
    if (is_something_handed_over())
      outcome.violations.push_back("something that was handed over has no reply");
    for (const std::string& question : bills_.asked_twice)
      outcome.violations.push_back(question + " was asked twice");
    // All sessions rest: nobody waits for a command any more.
    for (const auto& [call, sandbox] : boxes_.running)
      if (boxes_.alive.contains(sandbox) && !is_of_rivals(sandbox))
        outcome.violations.push_back(fmt::format("{} runs on in {}", call, sandbox));
    for (const std::string& sandbox : boxes_.made_twice)
      outcome.violations.push_back(sandbox + " was made on both nodes");
    check_left(outcome);
  }

  // Who has lost a session to a rival may make again what the other has ended.
  bool is_of_rivals(const std::string& sandbox) const {
    return settings_.rival && boxes_.made_again.contains(sandbox);
  }

  // What was bound lives on only with the session that keeps it. What was made ahead of a call may
  // be left by a process that died: its idle time ends it.
  void check_left(SimulationOutcome& outcome) const {
    std::set<std::string> held;
    std::set<std::string> bound;
    for (const auto& [id, stored] : tables_.sessions) {
      for (const auto& [name, sandbox] : fold(State{}, stored.events).sandboxes)
        held.insert(sandbox.id);
      for (const StoredEvent& event : stored.events)
        if (const auto* binding = std::get_if<SandboxBound>(&event.event))
          bound.insert(binding->sandbox);
    }
    for (const auto& [id, jobs] : boxes_.alive) {
      if (held.contains(id)) continue;
      ++outcome.left_sandboxes;
      if (bound.contains(id) && !is_of_rivals(id))
        outcome.violations.push_back(fmt::format("{} is nobody's", id));
      if (!jobs.empty())
        outcome.violations.push_back(fmt::format("{} is nobody's, and something ran in it", id));
    }
  }

  bool was_begun(const std::string& call) const {
    const std::size_t colon = call.rfind(':');
    const auto session = tables_.sessions.find(call.substr(0, colon));
    const auto seq = parse_decimal(call.substr(colon + 1));
    if (session == tables_.sessions.end() || !seq || *seq > session->second.events.size())
      return false;
    const auto* called =
        std::get_if<ToolCalled>(&session->second.events[static_cast<std::size_t>(*seq) - 1].event);
    return called != nullptr && memory::is_memory_tool(called->name);
  }

  SimulationSettings settings_;
  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  JumpingClock clock_;
  Fate fate_;
  Tables tables_;
  Boxes boxes_;
  Notebook notebook_;
  ServerBook server_book_;
  DeskBook desk_book_;
  Bills bills_;
  SimulatedModel model_;
  SimulatedNotes notes_;
  SimulatedServers servers_;
  SimulatedDesk desk_;
  SimulatedBoundary boundary_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::string lost_;
  TimePoint back_at_{};
  std::vector<std::pair<std::string, std::string>> acknowledged_;
  std::vector<std::string> seen_wrong_;
  int talked_ = 0;
  int wishes_ = 0;
};

}  // namespace

SimulationOutcome simulate(const SimulationSettings& settings) {
  return Simulation(settings).run();
}

}  // namespace pons::session
