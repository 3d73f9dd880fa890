#include "pons/schedule/scheduler.h"

#include <algorithm>

#include <fmt/format.h>

#include "moment.h"
#include "pons/base/log.h"
#include "ticks.h"

namespace pons::schedule {

namespace {

struct RunTag {
  static constexpr std::string_view kPrefix = "drun";
};

// Others may have changed something in the store, and the wall clock may have been set.
constexpr Duration kLongestSleep = std::chrono::seconds(10);
constexpr Duration kAfterFailure = std::chrono::seconds(1);
constexpr Duration kBetweenPlans = std::chrono::minutes(10);
constexpr Duration kSetBack = std::chrono::seconds(2);  // less is two readings of one clock
constexpr std::int64_t kDueAtOnce = 100;
constexpr std::size_t kStartedAtOnce = 64;
constexpr Duration kStartTime = std::chrono::seconds(60);
constexpr std::int64_t kGiveUpMs = 15 * 60'000;  // after it was first tried
constexpr std::int64_t kRetryMs = 1'000;
constexpr std::int64_t kRetryMsMax = 60'000;
constexpr std::size_t kMessageBytesMax = 1'000;

std::int64_t pause_before(std::int64_t attempts) {
  constexpr std::int64_t kDoublingsMax = 6;
  return std::min(kRetryMsMax, kRetryMs << std::min(attempts, kDoublingsMax));
}

void note(Run& run, std::variant<SessionId, RunError> outcome) {
  if (const auto* session = std::get_if<SessionId>(&outcome)) {
    run.session = session->text();
    return;
  }
  run.error = std::get<RunError>(std::move(outcome));
  if (!is_run_error(run.error->type)) run.error->type = "unknown_error";
  run.error->message.resize(std::min(run.error->message.size(), kMessageBytesMax));
}

}  // namespace

// While it lives, this process is starting the run, and does not find it among those left behind.
class Scheduler::Underway {
 public:
  explicit Underway(Scheduler& scheduler)
      : scheduler_(scheduler), run_(Id<RunTag>::generate().text()) {
    scheduler_.underway_.insert(run_);
  }
  Underway(Scheduler& scheduler, std::string run) : scheduler_(scheduler), run_(std::move(run)) {
    scheduler_.underway_.insert(run_);
  }
  ~Underway() { scheduler_.underway_.erase(run_); }
  Underway(const Underway&) = delete;
  Underway& operator=(const Underway&) = delete;
  const std::string& run() const { return run_; }

 private:
  Scheduler& scheduler_;
  std::string run_;
};

Scheduler::Scheduler(linux::Loop& loop, const Clock& clock, store::Store& store, Zones& zones,
                     Deployments& deployments, RunStarter& starter, Options options)
    : loop_(loop),
      clock_(clock),
      starter_(starter),
      deployments_(deployments),
      ticks_(std::make_unique<Ticks>(store, clock, zones, std::move(options.owner))),
      woken_(loop),
      tasks_(loop) {
  deployments_.on_change([this] { woken_.set(); });
}

Scheduler::~Scheduler() {
  deployments_.on_change(nullptr);
}

Task<> Scheduler::keep_going() {
  for (;;) {
    woken_.reset();
    const Duration rest = co_await pass();
    co_await woken_.wait(loop_.now() + rest);
  }
}

Task<Duration> Scheduler::pass() {
  if (const auto done = co_await pass_or_fail(); !done) {
    LOG_WARN("schedules cannot be looked at", {"error", done.error()});
    co_return kAfterFailure;
  }
  const auto next = co_await ticks_->find_next_due();
  if (!next) co_return kAfterFailure;
  if (!*next) co_return kLongestSleep;
  const Duration left = std::chrono::milliseconds(**next - wall_ms(clock_));
  // What is due already had to wait for something; it is not asked for without a pause.
  co_return left <= Duration(0) ? kAfterFailure : std::min(left, kLongestSleep);
}

Task<Result<void>> Scheduler::pass_or_fail() {
  const bool set_back = clock_was_set_back();
  if (set_back || !planned_ || clock_.now() - *planned_ >= kBetweenPlans) {
    CO_TRY(const auto changed, co_await ticks_->plan_again());
    planned_ = clock_.now();
    if (changed > 0)
      LOG_INFO("schedules were planned again", {"deployments", changed},
               {"clock_was_set_back", set_back});
  }
  CO_TRY_VOID(co_await take_up_left());
  CO_TRY_VOID(co_await start_due());
  co_return {};
}

bool Scheduler::clock_was_set_back() {
  const TimePoint now = clock_.now();
  const WallTime wall = clock_.wall();
  const bool is_first = !planned_;
  const WallTime expected = seen_wall_ + (now - seen_);
  seen_ = now;
  seen_wall_ = wall;
  return !is_first && wall < expected - kSetBack;
}

Task<Result<void>> Scheduler::take_up_left() {
  CO_TRY(auto left, co_await ticks_->list_left(kDueAtOnce + kStartedAtOnce));
  for (Ticks::Left& one : left) {
    if (underway_.contains(one.run.id)) continue;
    if (tasks_.size() >= kStartedAtOnce) break;
    auto underway = std::make_unique<Underway>(*this, one.run.id);
    const auto taken = co_await ticks_->take(one);
    if (!taken && taken.error().code == ErrorCode::kConflict) continue;
    if (!taken) co_return taken.error();
    tasks_.spawn(start(std::move(one.run), one.attempts + 1, std::move(underway)));
  }
  co_return {};
}

Task<Result<void>> Scheduler::start_due() {
  CO_TRY(auto due, co_await ticks_->list_due(kDueAtOnce));
  for (StoredDeployment& one : due) {
    if (tasks_.size() >= kStartedAtOnce) co_return {};  // the first that ends wakes us
    CO_TRY_VOID(co_await deal_with(std::move(one)));
  }
  if (static_cast<std::int64_t>(due.size()) == kDueAtOnce) woken_.set();
  co_return {};
}

Task<Result<void>> Scheduler::deal_with(StoredDeployment due) {
  auto underway = std::make_unique<Underway>(*this);
  auto claimed = co_await ticks_->claim(due, underway->run());
  if (claimed) {
    woken_.set();  // the tick behind it may be due, too
    if (*claimed) tasks_.spawn(start(std::move(**claimed), 1, std::move(underway)));
    co_return {};
  }
  if (claimed.error().code == ErrorCode::kConflict) co_return {};  // another process has it
  if (claimed.error().code != ErrorCode::kInvalid) co_return claimed.error();
  // Its zone is no more, or a newer program wrote it. The others are not kept waiting.
  LOG_WARN("a schedule cannot be read", {"deployment", due.shown.id}, {"error", claimed.error()});
  co_return co_await ticks_->give_up(std::move(due), underway->run(),
                                     claimed.error().message.substr(0, kMessageBytesMax));
}

Task<Result<std::variant<SessionId, RunError>>> Scheduler::try_to_start(Run run) {
  CO_TRY(auto spec, co_await ticks_->find_spec(run.deployment));
  if (!spec)
    co_return RunError{.type = "unknown_error", .message = "the deployment is not there any more"};
  spec->agent = run.agent;
  RunOrder order{.run = run, .spec = *std::move(spec), .session = session_id_for(run.id)};
  auto outcome =
      co_await linux::within(loop_, loop_.now() + kStartTime, starter_.start_run(std::move(order)));
  if (!outcome)
    co_return make_error(ErrorCode::kTimeout, "start run", "making the session took too long");
  co_return std::move(*outcome);
}

Task<> Scheduler::start(Run run, std::int64_t attempts, std::unique_ptr<Underway> underway) {
  auto outcome = co_await try_to_start(run);
  if (!outcome) {
    LOG_WARN("a run cannot be started now", {"run", run.id}, {"error", outcome.error()});
    const std::int64_t now_ms = wall_ms(clock_);
    if (now_ms - run.created_ms < kGiveUpMs) {
      // Where even this fails it is this process's own, and found again.
      (void)co_await ticks_->postpone(run.id, now_ms + pause_before(attempts));
      co_return;
    }
    outcome = RunError{.type = "unknown_error", .message = outcome.error().describe()};
  }
  note(run, std::move(*outcome));
  if (const auto settled = co_await ticks_->settle(run);
      !settled && settled.error().code != ErrorCode::kConflict)
    LOG_WARN("what came of a run cannot be stored", {"run", run.id}, {"error", settled.error()});
  woken_.set();
  underway.reset();
}

Task<Result<Run>> Scheduler::run_now(std::string project, std::string deployment) {
  const Underway underway(*this);
  CO_TRY(auto run,
         co_await ticks_->open_by_hand(std::move(project), std::move(deployment), underway.run()));
  auto outcome = co_await try_to_start(run);
  // Somebody waits for it: it is not tried again behind their back.
  if (!outcome) outcome = RunError{.type = "unknown_error", .message = outcome.error().describe()};
  note(run, std::move(*outcome));
  CO_TRY_VOID(co_await ticks_->settle(run));
  co_return run;
}

}  // namespace pons::schedule
