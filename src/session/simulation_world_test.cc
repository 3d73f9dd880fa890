#include "simulation.h"

#include <algorithm>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "feed.h"
#include "pons/base/json.h"
#include "pons/base/text.h"
#include "pons/linux/run_task.h"
#include "pons/session/replay.h"
#include "pons/session/tools.h"

namespace pons::session {

namespace {

// The clock of the loop, whose time is simulated.
class LoopClock final : public Clock {
 public:
  explicit LoopClock(linux::Loop& loop) : loop_(loop), zero_(loop.now()) {}
  TimePoint now() const override { return loop_.now(); }
  WallTime wall() const override {
    return WallTime(std::chrono::hours(24 * 365)) + (loop_.now() - zero_);
  }

 private:
  linux::Loop& loop_;
  TimePoint zero_;
};

// Decides what goes wrong.
class Fate {
 public:
  Fate(linux::Loop& loop, const SimulationSettings& settings)
      : loop_(loop), settings_(settings), random_(settings.seed) {}

  enum class Turn : std::uint8_t { kWell, kFailsBefore, kFailsAfter };

  // Each wait of the world is one of these.
  Task<Turn> wait() {
    co_await loop_.sleep_for(std::chrono::microseconds(pick(20'000)));
    if (calm_ || !strikes()) co_return Turn::kWell;
    ++faults;
    switch (pick(5)) {
      case 0:
        crash_wanted = true;  // the process does not get to see the outcome
        co_await loop_.sleep_for(std::chrono::hours(1'000));
        co_return Turn::kFailsBefore;
      case 1:
        crash_after_ = true;
        co_return Turn::kWell;
      case 2:
        co_await loop_.sleep_for(std::chrono::seconds(pick(60)));
        co_return Turn::kWell;
      case 3:
        co_return Turn::kFailsBefore;
      default:
        co_return Turn::kFailsAfter;
    }
  }
  // After something has happened in the world: the process may die before it hears of it.
  Task<> afterwards() {
    if (!std::exchange(crash_after_, false)) co_return;
    crash_wanted = true;
    co_await loop_.sleep_for(std::chrono::hours(1'000));
  }

  std::uint64_t pick(std::uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool strikes() {
    return static_cast<double>(random_() % 1'000'000) < settings_.fault * 1'000'000;
  }
  void calm_down() { calm_ = true; }

  bool crash_wanted = false;
  int faults = 0;

 private:
  linux::Loop& loop_;
  const SimulationSettings& settings_;
  std::mt19937_64 random_;
  bool calm_ = false;
  bool crash_after_ = false;
};

// Outlives processes.
struct Tables {
  struct Stored {
    Summary summary;
    std::vector<StoredEvent> events;
    std::int64_t epoch = 1;
    std::string owner;
    std::int64_t lease_until = 0;
  };
  std::map<std::string, Stored> sessions;
  std::map<std::string, Chore> chores;
};

class SimulatedLog final : public Log {
 public:
  SimulatedLog(Tables& tables, Fate& fate, const Clock& clock, std::string owner)
      : tables_(tables), fate_(fate), clock_(clock), owner_(std::move(owner)) {}

  Task<Result<Lease>> create(Summary summary, std::vector<StoredEvent> events) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    auto [place, is_new] = tables_.sessions.try_emplace(summary.id);
    if (!is_new) co_return make_error(ErrorCode::kConflict, "create", "taken");
    place->second = {.summary = summary,
                     .events = std::move(events),
                     .epoch = 1,
                     .owner = owner_,
                     .lease_until = lease_end(summary.status)};
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return Lease{.session = summary.id, .project = summary.project, .epoch = 1};
  }

  Task<Result<Lease>> take(std::string session) override {
    const auto turn = co_await fate_.wait();
    if (turn != Fate::Turn::kWell) co_return down();
    const auto found = tables_.sessions.find(session);
    if (found == tables_.sessions.end()) co_return make_error(ErrorCode::kNotFound, "take", "");
    auto& stored = found->second;
    const bool steals = fate_.pick(2) == 0;  // as one would whose clock is wrong
    if (stored.owner != owner_ && stored.lease_until >= now_ms() && !steals)
      co_return make_error(ErrorCode::kConflict, "take", "another's");
    stored.owner = owner_;
    stored.epoch += 1;
    stored.lease_until = now_ms() + kLeaseMs;
    co_await fate_.afterwards();
    co_return Lease{.session = session, .project = stored.summary.project, .epoch = stored.epoch};
  }

  Task<Result<void>> append(const Batch& batch) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    auto& stored = tables_.sessions.at(batch.lease.session);
    if (stored.epoch != batch.lease.epoch ||
        stored.events.back().seq + 1 != batch.events.front().seq)
      co_return make_error(ErrorCode::kConflict, "append", "fenced");
    stored.events.insert(stored.events.end(), batch.events.begin(), batch.events.end());
    stored.summary = batch.summary;
    stored.lease_until = lease_end(batch.summary.status);
    for (const Chore& chore : batch.chores) tables_.chores.emplace(chore.id, chore);
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return late();
    co_return {};
  }

  Task<Result<void>> renew() override {
    for (auto& [id, stored] : tables_.sessions)
      if (stored.owner == owner_ && !is_at_rest(stored.summary.status))
        stored.lease_until = now_ms() + kLeaseMs;
    co_return {};
  }

  Task<Result<std::vector<StoredEvent>>> read(std::string session, Seq after,
                                              std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<StoredEvent> page;
    for (const StoredEvent& event : tables_.sessions.at(session).events)
      if (event.seq > after && page.size() < static_cast<std::size_t>(limit)) page.push_back(event);
    co_return page;
  }

  Task<Result<Summary>> find(std::string session) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    const auto found = tables_.sessions.find(session);
    if (found == tables_.sessions.end()) co_return make_error(ErrorCode::kNotFound, "find", "");
    co_return found->second.summary;
  }

  Task<Result<std::vector<Summary>>> list(ListQuery) override { co_return std::vector<Summary>(); }

  Task<Result<std::vector<std::string>>> list_orphans() override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<std::string> ids;
    for (const auto& [id, stored] : tables_.sessions)
      if (!is_at_rest(stored.summary.status) &&
          (stored.owner == owner_ || stored.lease_until < now_ms()))
        ids.push_back(id);
    co_return ids;
  }

  Task<Result<void>> archive(std::string, std::int64_t) override { co_return {}; }
  Task<Result<std::string>> read_blob(std::string, std::string) override {
    co_return std::string();
  }

  Task<Result<std::vector<Chore>>> list_chores(std::int64_t limit) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    std::vector<Chore> list;
    for (const auto& [id, chore] : tables_.chores)
      if (list.size() < static_cast<std::size_t>(limit)) list.push_back(chore);
    co_return list;
  }

  Task<Result<void>> finish_chores(std::vector<std::string> ids) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    for (const std::string& id : ids) tables_.chores.erase(id);
    co_return {};
  }

 private:
  static constexpr std::int64_t kLeaseMs = 30'000;
  static Error down() { return make_error(ErrorCode::kUnavailable, "store", "no room"); }
  static Error late() { return make_error(ErrorCode::kTimeout, "store", "took too long"); }
  std::int64_t now_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch())
        .count();
  }
  std::int64_t lease_end(Status status) const {
    return is_at_rest(status) ? 0 : now_ms() + kLeaseMs;
  }

  Tables& tables_;
  Fate& fate_;
  const Clock& clock_;
  std::string owner_;
};

// Says what it says because of the conversation alone, as a script does.
class SimulatedModel final : public Model {
 public:
  SimulatedModel(Fate& fate, const SimulationSettings& settings)
      : fate_(fate), settings_(settings) {}

  Task<std::variant<Answer, NoAnswer>> ask(Question question, const Listener& listener) override {
    // Only what is said: reading the tools each time would take most of the simulation's time.
    constexpr std::string_view kMessages = "\"messages\":";
    const std::string_view all = question.request;
    const std::size_t begin = all.find(kMessages) + kMessages.size();
    const Json messages = *parse_json(all.substr(begin, all.size() - begin - 1));
    Answer answer = answer_to(question.session, messages);
    for (std::size_t i = 0; i < answer_blocks_.size(); ++i)
      if (answer_blocks_[i]["type"] == "tool_use")
        listener.on_tool(static_cast<std::int64_t>(i),
                         answer_blocks_[i]["name"].get<std::string>());
    listener.on_text("…");
    switch (co_await fate_.wait()) {
      case Fate::Turn::kFailsBefore:
        co_return NoAnswer{.trouble = Trouble::kPassing, .message = "overloaded"};
      case Fate::Turn::kFailsAfter:
        co_return NoAnswer{.trouble = fate_.pick(4) == 0 ? Trouble::kTooLong : Trouble::kPassing,
                           .message = "cut off",
                           .wait_ms = 1'000};
      case Fate::Turn::kWell:
        break;
    }
    co_await fate_.afterwards();
    co_return answer;
  }

 private:
  static Json tool_use(const std::string& id, std::string_view name, Json input) {
    return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
  }

  Answer answer_to(const std::string& session, const Json& messages) {
    // Where the conversation stands: answers since people last said something.
    std::size_t step = 0;
    bool lacks_sandbox = true;
    std::string last_text;
    for (const Json& message : messages)
      for (const Json& block : message["content"]) {
        if (message["role"] == "assistant") {
          if (&block == &message["content"].front()) ++step;
          continue;
        }
        if (block["type"] == "text") {
          step = 0;
          lacks_sandbox = true;
          last_text = block["text"].get<std::string>();
        } else if (block.contains("content")) {
          const auto text = block["content"].get<std::string>();
          if (text.starts_with("sandbox_id")) lacks_sandbox = false;
          if (text.find("no sandbox") != std::string::npos ||
              text.find("interrupted") != std::string::npos)
            lacks_sandbox = true;
        }
      }
    answer_blocks_ = Json::array();
    const std::size_t plan = 1 + std::hash<std::string>{}(session + last_text) %
                                     static_cast<std::size_t>(settings_.commands);
    const std::string place = fmt::format("{}/{}/{}", session, last_text, step);
    if (last_text.starts_with("The conversation is about to")) {
      answer_blocks_.push_back({{"type", "text"}, {"text", "in short"}});
    } else if (step > plan) {
      answer_blocks_.push_back({{"type", "text"}, {"text", "done " + last_text}});
    } else if (lacks_sandbox) {
      answer_blocks_.push_back(tool_use("p" + place, kProvision, {{"task_description", "work"}}));
    } else {
      const std::size_t together = 1 + std::hash<std::string>{}(place) % 3;
      for (std::size_t i = 0; i < together; ++i)
        answer_blocks_.push_back(tool_use(fmt::format("x{}-{}", place, i), kExecute,
                                          {{"command", fmt::format("{}-{}", place, i)}}));
    }
    const bool calls = answer_blocks_.front()["type"] == "tool_use";
    return {.content = dump_json(answer_blocks_),
            .stop_reason = calls ? "tool_use" : "end_turn",
            .model = "simulated",
            .usage = {.input = static_cast<std::int64_t>(messages.size()), .output = 10}};
  }

  Fate& fate_;
  const SimulationSettings& settings_;
  Json answer_blocks_;
};

struct Boxes {
  std::map<std::string, std::map<std::string, std::string>> alive;  // by id: jobs by call
  std::map<std::string, int> runs;                                  // by command
  std::set<std::string> made;
};

class SimulatedHands final : public Hands {
 public:
  SimulatedHands(Boxes& boxes, Fate& fate, const SimulationSettings& settings)
      : boxes_(boxes), fate_(fate), settings_(settings) {}

  Task<Result<ProvisionReport>> provision(ProvisionOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (boxes_.made.insert(order.sandbox).second) boxes_.alive[order.sandbox];
    if (!boxes_.alive.contains(order.sandbox))
      co_return make_error(ErrorCode::kNotFound, "provision", "it was destroyed");
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return ProvisionReport{.contents = "Linux"};
  }

  Task<Result<ExecuteReport>> execute(ExecuteOrder order) override {
    const auto turn = co_await fate_.wait();
    if (turn == Fate::Turn::kFailsBefore) co_return down();
    if (turn == Fate::Turn::kFailsAfter && fate_.pick(3) == 0) boxes_.alive.erase(order.sandbox);
    const auto box = boxes_.alive.find(order.sandbox);
    if (box == boxes_.alive.end()) co_return make_error(ErrorCode::kNotFound, "execute", "gone");
    if (settings_.forget_calls || box->second.emplace(order.call, order.command).second)
      boxes_.runs[order.command] += 1;
    co_await fate_.afterwards();
    if (turn == Fate::Turn::kFailsAfter) co_return down();
    co_return ExecuteReport{.output = order.command};
  }

  Task<Result<void>> stop(std::string, std::string) override { co_return {}; }

  // Nobody forks in this world.
  Task<Result<void>> copy(CopyOrder) override {
    co_return make_error(ErrorCode::kNotFound, "copy", "there is no such sandbox");
  }

  Task<Result<void>> destroy(std::string sandbox) override {
    if (co_await fate_.wait() != Fate::Turn::kWell) co_return down();
    boxes_.alive.erase(sandbox);
    co_return {};
  }

 private:
  static Error down() { return make_error(ErrorCode::kUnavailable, "sandbox", "went away"); }
  Boxes& boxes_;
  Fate& fate_;
  const SimulationSettings& settings_;
};

class SimulatedBoundary final : public Boundary {
 public:
  explicit SimulatedBoundary(Fate& fate) : fate_(fate) {}
  Task<Result<Redaction>> redact(Text text) override {
    if (co_await fate_.wait() != Fate::Turn::kWell)
      co_return make_error(ErrorCode::kUnavailable, "redact", "went away");
    co_return Redaction{.text = std::move(text.text)};
  }

 private:
  Fate& fate_;
};

class Simulation {
 public:
  explicit Simulation(const SimulationSettings& settings)
      : settings_(settings),
        loop_(std::move(*linux::Loop::create())),
        time_(*loop_),
        clock_(*loop_),
        fate_(*loop_, settings_),
        model_(fate_, settings_),
        hands_(boxes_, fate_, settings_),
        boundary_(fate_) {}

  SimulationOutcome run() {
    SimulationOutcome outcome;
    outcome.finished = linux::run_to_end(*loop_, direct(outcome));
    outcome.faults = fate_.faults;
    for (const auto& [command, runs] : boxes_.runs) outcome.commands += runs;
    for (auto& [id, stored] : tables_.sessions) {
      check(id, stored, outcome);
      outcome.logs.push_back(stored.events);
    }
    check_boxes(outcome);
    return outcome;
  }

 private:
  struct Process {
    Process(Simulation& world, std::string owner)
        : log(world.tables_, world.fate_, world.clock_, std::move(owner)),
          sessions(*world.loop_, world.clock_, log, world.model_, world.hands_, world.boundary_),
          tasks(*world.loop_) {
      tasks.spawn(sessions.keep_going());
    }
    SimulatedLog log;
    Sessions sessions;
    linux::TaskGroup tasks;
  };

  std::string id_of(int session) const { return fmt::format("ses_{}", session); }

  // People, who try again until they are heard.
  Task<> talk(int number) {
    const std::string id = id_of(number);
    for (int m = 0; m < settings_.messages; ++m) {
      const std::string text = fmt::format("m{}-{}", number, m);
      for (;;) {
        co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(3'000)));
        if (processes_.empty()) continue;
        Process& process = anyone();
        if (co_await ask(process, say(process.sessions, id, text, m == 0))) break;
      }
      acknowledged_.push_back({id, text});
      co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(500)));
      if (fate_.pick(4) == 0 && !processes_.empty()) {
        Process& process = anyone();
        (void)co_await ask(process, stop(process.sessions, id));
      }
    }
    ++talked_;
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

  static Task<bool> stop(Sessions& sessions, std::string id) {
    co_return (co_await sessions.add(std::move(id), Interrupted{})).has_value();
  }

  Task<bool> say(Sessions& sessions, std::string id, std::string text, bool first) {
    const UserMessage message = message_of(text, text);
    if (first) {
      const auto made = co_await sessions.create(
          {.id = id, .project = "p", .agent = {.model = "m"}, .message = message});
      if (made && tables_.sessions.at(id).events.size() > 1) co_return true;
      if (!made) co_return false;
    }
    co_return (co_await sessions.add(id, message)).has_value();
  }

  Process& anyone() { return *processes_[fate_.pick(processes_.size())]; }

  void start_processes() {
    processes_.push_back(std::make_unique<Process>(*this, "first"));
    if (settings_.rival) processes_.push_back(std::make_unique<Process>(*this, "second"));
  }

  Task<bool> direct(SimulationOutcome& outcome) {
    start_processes();
    // A person outlives crashes, but what they were waiting for does not: they ask again.
    std::vector<std::unique_ptr<linux::TaskGroup>> people;
    for (int i = 0; i < settings_.sessions; ++i) {
      people.push_back(std::make_unique<linux::TaskGroup>(*loop_));
      people.back()->spawn(talk(i));
    }
    const TimePoint calm = loop_->now() + std::chrono::minutes(30);
    const TimePoint end = loop_->now() + std::chrono::hours(12);
    while (loop_->now() < end) {
      co_await loop_->sleep_for(std::chrono::milliseconds(200));
      if (loop_->now() > calm) fate_.calm_down();
      if (fate_.crash_wanted) {
        ++outcome.crashes;
        processes_.clear();
        fate_.crash_wanted = false;
        co_await loop_->sleep_for(std::chrono::milliseconds(fate_.pick(5'000)));
        start_processes();
      }
      if (talked_ == settings_.sessions && all_rest()) break;
    }
    const bool finished = talked_ == settings_.sessions && all_rest();
    fate_.calm_down();
    processes_.clear();
    start_processes();
    co_await loop_->sleep_for(std::chrono::minutes(2));  // for what is left to tidy up
    processes_.clear();
    co_return finished;
  }

  bool all_rest() const {
    return std::ranges::all_of(tables_.sessions, [](const auto& entry) {
      return entry.second.summary.status == Status::kIdle;
    });
  }

  void check(const std::string& id, const Tables::Stored& stored, SimulationOutcome& outcome) {
    const auto say_wrong = [&](std::string what) {
      outcome.violations.push_back(fmt::format("{}: {}", id, what));
    };
    for (std::size_t i = 0; i < stored.events.size(); ++i)
      if (stored.events[i].seq != static_cast<Seq>(i) + 1) say_wrong("a gap in the log");
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
    for (const StoredEvent& event : stored.events)
      if (const auto* released = std::get_if<SandboxReleased>(&event.event))
        if (boxes_.alive.contains(released->sandbox)) say_wrong("a released sandbox lives on");
  }

  void check_boxes(SimulationOutcome& outcome) const {
    for (const auto& [command, runs] : boxes_.runs)
      if (runs > 1) outcome.violations.push_back(fmt::format("{} was run {} times", command, runs));
    if (!tables_.chores.empty()) outcome.violations.push_back("chores are left over");
  }

  SimulationSettings settings_;
  std::unique_ptr<linux::Loop> loop_;
  linux::SimulatedTime time_;
  LoopClock clock_;
  Fate fate_;
  Tables tables_;
  Boxes boxes_;
  SimulatedModel model_;
  SimulatedHands hands_;
  SimulatedBoundary boundary_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::pair<std::string, std::string>> acknowledged_;
  int talked_ = 0;
};

}  // namespace

SimulationOutcome simulate(const SimulationSettings& settings) {
  return Simulation(settings).run();
}

}  // namespace pons::session
