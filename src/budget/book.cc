#include "pons/budget/book.h"

#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "call_log.h"
#include "ledger.h"
#include "moment.h"
#include "pons/base/check.h"
#include "pons/base/id.h"
#include "pons/base/log.h"

namespace pons::budget {

namespace {

// How often a stream's usage goes into the journal.
constexpr std::int64_t kProgressMs = 500;
constexpr Duration kAfterFailure = std::chrono::seconds(1);
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kSandboxSecondsMax = 31LL * 86'400;
constexpr std::string_view kSandboxModel = "sandbox";

// Begins with the time, so that calls made one after the other stand side by side in the store:
// with random ids each would change a page of its own.
std::string new_call_id(std::int64_t time_ms) {
  constexpr std::string_view kDigits = "0123456789abcdefghjkmnpqrstvwxyz";
  constexpr int kTimeDigits = 9;
  constexpr unsigned kDigitBits = 5;
  constexpr std::size_t kRandomDigits = 17;
  std::string id = "mc_";
  for (int digit = kTimeDigits - 1; digit >= 0; --digit)
    id += kDigits[static_cast<std::uint64_t>(time_ms) >> (kDigitBits * digit) & 31U];
  return id + random_text(kRandomDigits);
}

constexpr std::string_view kCallPrefix = "mc_";
constexpr std::size_t kQuestionBytesMin = 16;
constexpr std::size_t kQuestionBytesMax = 64;

Result<void> check_question(std::string_view question) {
  const bool is_plain = std::ranges::all_of(
      question, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); });
  if (is_plain && question.size() >= kQuestionBytesMin && question.size() <= kQuestionBytesMax)
    return {};
  return make_error(ErrorCode::kInvalid, "name question",
                    "a question's id has 16 to 64 small letters and digits");
}

// What the ids of a question's calls begin with: so the ledger finds them again.
std::string call_prefix_of(std::string_view question) {
  return fmt::format("{}{}-", kCallPrefix, question);
}

// A client may send a question twice without knowing.
std::string call_id_of(std::string_view question) {
  constexpr std::size_t kRandomDigits = 8;
  return call_prefix_of(question) + random_text(kRandomDigits);
}

Amounts real_amounts(const Settled& settled) {
  Amounts amounts = amounts_of(settled.usage, settled.cost_nano);
  amounts[What::kRequests] = settled.requests;
  amounts[What::kSandboxSeconds] = settled.sandbox_seconds;
  return amounts;
}

}  // namespace

struct Book::State {
  std::string id;
  Reservation held;
  const Price* price;
  std::int64_t price_percent;
  Settled if_lost;     // as the counters and the journal have it
  Progress last = {};  // the newest
  std::int64_t written_ms = 0;
  bool sent = false;
};

void EndedQuestions::add(std::string question, TimePoint now) {
  constexpr Duration kKept = std::chrono::hours(1);
  constexpr std::size_t kMost = 100'000;
  while (!oldest_first_.empty() &&
         (now - oldest_first_.front().first > kKept || oldest_first_.size() >= kMost)) {
    all_.erase(oldest_first_.front().second);
    oldest_first_.pop_front();
  }
  if (all_.insert(question).second) oldest_first_.emplace_back(now, std::move(question));
}

// ---- a call

Call::~Call() {
  if (book_ != nullptr) book_->drop(number_);
}

void Call::sent() {
  if (book_ != nullptr) book_->sent(number_);
}

void Call::progress(const models::Usage& usage) {
  if (book_ != nullptr) book_->progress(number_, usage);
}

std::int64_t Call::settle(const models::Usage& usage, Outcome outcome) {
  Book* const book = std::exchange(book_, nullptr);
  return book == nullptr ? 0 : book->settle(number_, usage, outcome);
}

void Call::withdraw() {
  if (Book* const book = std::exchange(book_, nullptr)) book->withdraw(number_);
}

Result<Call> Book::begin_call(CallWish wish, Refused* refused) {
  const Key* key = TRY(keys_->find(wish.node_id));
  if (wish.model.empty() || !is_record_text(wish.model) || !is_record_text(wish.provider))
    return make_error(ErrorCode::kInvalid, "begin call",
                      "names of models and providers have at most 128 bytes and no control "
                      "characters");
  if (!wish.question.empty()) TRY_VOID(check_question(wish.question));
  if (ended_.contains(wish.question))
    return make_error(ErrorCode::kDenied, "begin call", "nobody waits for an answer any more");
  if (wish.asked.empty() || !keys_->may_call(*key, wish.asked))
    TRY_VOID(keys_->may_call(*key, wish.model));
  const Price* const price = wish.price != nullptr ? wish.price : TRY(prices_.find(wish.model));
  const std::int64_t time = now();
  Reserved call{.id = wish.question.empty() ? new_call_id(time) : call_id_of(wish.question),
                .project_id = key->project_id,
                .path = keys_->path_of(*key),
                .model = std::move(wish.model),
                .provider = std::move(wish.provider),
                .estimate = within_bounds(wish.estimate),
                .time_ms = time};
  models::Usage prompt = call.estimate;
  prompt.output = 0;
  prompt.reasoning.reset();
  prompt.searches = 0;
  call.input_nano = cost(*price, prompt, wish.price_percent);

  State state{.id = call.id,
              .price = price,
              .price_percent = wish.price_percent,
              .if_lost = as_lost(call, {}, Outcome::kExpired, 0),
              .last = {.id = call.id},
              .written_ms = time,
              .sent = wish.is_sent};
  state.held = TRY(counters_.reserve(
      wish.node_id,
      {.most = amounts_of(call.estimate, cost(*price, call.estimate, wish.price_percent)),
       .if_lost = real_amounts(state.if_lost)},
      call.time_ms, refused));
  TRY_VOID(log_->reserve(std::move(call), wish.is_sent));
  if (log_->has_batch()) wake_.set();
  const std::uint64_t number = state.held.number();
  std::string id = state.id;
  calls_.emplace(number, std::make_unique<State>(std::move(state)));
  return Call(*this, number, std::move(id));
}

void Book::sent(std::uint64_t number) {
  progress(number, {});
}

void Book::progress(std::uint64_t number, const models::Usage& usage) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  State& state = *found->second;
  const models::Usage bounded = within_bounds(usage);
  state.last = {.id = state.id,
                .usage = bounded,
                .cost_nano = cost(*state.price, bounded, state.price_percent)};
  const std::int64_t time = now();
  if (state.sent && time - state.written_ms < kProgressMs) return;
  state.sent = true;
  state.written_ms = time;
  log_->progress(state.last);
  state.if_lost = as_lost(log_->reserved(state.id), state.last, Outcome::kExpired, time);
  state.held.renew(real_amounts(state.if_lost), time);
}

void Book::tell(const Settled& settled) const {
  if (!witness_) return;
  const Reserved& call = log_->reserved(settled.id);
  witness_({.provider = call.provider,
            .model = call.model,
            .usage = settled.usage,
            .cost_nano = settled.cost_nano,
            .outcome = settled.outcome});
}

void Book::raise_alarm() {
  for (const Warning& warning : counters_.take_warnings())
    if (alarm_) alarm_(warning);
}

void Book::finish(std::uint64_t number, Settled settled) {
  tell(settled);
  const auto found = calls_.find(number);
  const Amounts real = real_amounts(settled);
  const std::int64_t time = settled.time_ms;
  log_->settle(std::move(settled));
  found->second->held.settle(real, time);
  calls_.erase(found);
  raise_alarm();
}

std::int64_t Book::settle(std::uint64_t number, const models::Usage& usage, Outcome outcome) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return 0;  // its time was over
  const models::Usage bounded = within_bounds(usage);
  const std::int64_t cost_nano = cost(*found->second->price, bounded, found->second->price_percent);
  finish(number, {.id = found->second->id,
                  .usage = bounded,
                  .cost_nano = cost_nano,
                  .outcome = outcome,
                  .time_ms = now()});
  return cost_nano;
}

void Book::drop(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  if (found->second->sent) {
    finish(number, as_lost(log_->reserved(found->second->id), found->second->last,
                           Outcome::kCancelled, now()));
    return;
  }
  withdraw(number);
}

void Book::withdraw(std::uint64_t number) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;  // its time was over
  log_->release(found->second->id);
  calls_.erase(found);
}

void Book::sweep() {
  for (const std::uint64_t number : counters_.sweep(now())) {
    const auto found = calls_.find(number);
    CHECK(found != calls_.end());
    Settled settled = found->second->if_lost;
    settled.time_ms = latest_ms_;
    tell(settled);
    LOG_WARN("nothing was heard of a call for too long", {"call", settled.id});
    log_->settle(std::move(settled));
    calls_.erase(found);
  }
  raise_alarm();
}

Task<Result<QuestionUse>> Book::end_question(std::string question) {
  CO_TRY_VOID(check_question(question));
  ended_.add(question, clock_.now());
  const std::string prefix = call_prefix_of(question);
  for (const auto& [number, state] : calls_)
    if (state->id.starts_with(prefix))
      co_return make_error(ErrorCode::kConflict, "end question", "a call of it is under way");
  CO_TRY_VOID(co_await flush());
  co_return co_await ledger_->use_of(prefix);
}

Task<Result<bool>> Book::charge_sandbox(std::string node_id, std::string sandbox_id,
                                        std::int64_t seconds) {
  CO_TRY(const Key* key, keys_->find(node_id));
  if (seconds < 1 || seconds > kSandboxSecondsMax)
    co_return make_error(ErrorCode::kInvalid, "charge sandbox",
                         "that is no time a sandbox has run");
  Reserved call{.id = "sandbox-" + sandbox_id,
                .project_id = key->project_id,
                .path = keys_->path_of(*key),
                .model = std::string(kSandboxModel),
                .provider = {},
                .estimate = {},
                .time_ms = now()};
  if (sandbox_id.empty() || !is_record_text(call.id))
    co_return make_error(ErrorCode::kInvalid, "charge sandbox", "that is no id of a sandbox");
  if (!charging_.insert(sandbox_id).second)
    co_return make_error(ErrorCode::kConflict, "charge sandbox", "it is being charged");
  struct Charging {
    std::set<std::string, std::less<>>& all;
    const std::string& id;
    ~Charging() { all.erase(id); }
  } const charging{charging_, sandbox_id};
  // First what the store does not have yet: from there it goes to the store, never back.
  if (log_->knows(call.id)) co_return false;
  CO_TRY(const bool is_stored, co_await ledger_->has_call(call.id));
  if (is_stored) co_return false;
  const Settled settled{.id = call.id,
                        .usage = {},
                        .sandbox_seconds = seconds,
                        .requests = 0,
                        .cost_nano = sandbox_amounts(seconds)[What::kMoney],
                        .outcome = Outcome::kSandbox,
                        .time_ms = call.time_ms};
  CO_TRY_VOID(log_->reserve(std::move(call)));
  log_->settle(settled);
  counters_.let_go(node_id, sandbox_amounts(seconds));
  // Over the limit: it has happened nevertheless.
  (void)counters_.charge(node_id, real_amounts(settled), latest_ms_);
  raise_alarm();
  co_return true;
}

Amounts Book::sandbox_amounts(std::int64_t seconds) const {
  Amounts amounts;
  amounts[What::kSandboxSeconds] = seconds;
  amounts[What::kMoney] = seconds * options_.sandbox_second_nano;
  return amounts;
}

Result<void> Book::admit_sandbox(std::string_view node_id, Refused* refused) {
  TRY_VOID(keys_->find(node_id));
  TRY_VOID(counters_.hold_more(node_id, sandbox_amounts(1), now(), refused));
  raise_alarm();
  return {};
}

void Book::hold_sandboxes(const TextMap<std::int64_t>& seconds) {
  constexpr std::int64_t kMost = 1'000'000'000;  // whose price fits into a number
  TextMap<Amounts> running;
  for (const auto& [node_id, sum] : seconds)
    running[node_id] = sandbox_amounts(std::clamp<std::int64_t>(sum, 0, kMost));
  counters_.hold(running, now());
  raise_alarm();
}

bool Book::limits_sandboxes(const Key& key) const {
  return has_sandboxes(key) && std::ranges::any_of(key.limits, [&](const Limit& limit) {
           return limit.what == What::kSandboxSeconds ||
                  (limit.what == What::kMoney && options_.sandbox_second_nano > 0);
         });
}

// ---- the book

Book::Book(linux::Loop& loop, store::Store& store, const Clock& clock, Prices prices,
           BookOptions options)
    : loop_(loop),
      clock_(clock),
      prices_(std::move(prices)),
      options_(std::move(options)),
      counters_(options_.lease),
      keys_(std::make_unique<Keys>(store, counters_, clock)),
      ledger_(std::make_unique<Ledger>(store)),
      stored_(loop),
      wake_(loop),
      tasks_(loop) {}

Book::~Book() {
  CHECK(calls_.empty());
}

// A clock that goes back would put a call into a window that is over.
std::int64_t Book::now() {
  latest_ms_ = std::max(latest_ms_, moment_ms(clock_));
  return latest_ms_;
}

Task<Result<std::unique_ptr<Book>>> Book::open(linux::Loop& loop, store::Store& store,
                                               const Clock& clock, Prices prices,
                                               BookOptions options) {
  if (mkdir(options.directory.c_str(), 0700) != 0 && errno != EEXIST)
    co_return os_error("create journal directory", options.directory);
  std::unique_ptr<Book> book(new Book(loop, store, clock, std::move(prices), std::move(options)));
  CO_TRY_VOID(co_await book->start());
  co_return std::move(book);
}

Task<Result<void>> Book::start() {
  CO_TRY_VOID(co_await keys_->load());
  CO_TRY(const std::int64_t last_file, co_await ledger_->last_file());
  CO_TRY(log_, CallLog::open({.directory = options_.directory,
                              .file_bytes = options_.journal_file_bytes,
                              .sync_interval = options_.sync_interval},
                             last_file, now()));
  CO_TRY_VOID(co_await flush());
  CO_TRY_VOID(co_await ledger_->restore(counters_, now()));
  tasks_.spawn(run());
  co_return {};
}

Task<> Book::run() {
  for (;;) {
    co_await wake_.wait(loop_.now() + options_.store_interval);
    wake_.reset();
    if (const auto done = co_await round(); !done) {
      LOG_ERROR("calls to models wait for the store", {"error", done.error()});
      co_await loop_.sleep_for(kAfterFailure);
    }
  }
}

Task<Result<void>> Book::round() {
  sweep();
  // Files that wait already are not joined by small ones.
  if (!log_->has_batch()) CO_TRY_VOID(log_->finish_file());
  CO_TRY_VOID(co_await store_batches());
  CO_TRY_VOID(co_await keys_->revoke_expired());
  const std::int64_t kept = std::max(options_.calls_kept_days, 1) * kDayMs;
  co_return co_await ledger_->prune(now() - kept);
}

Task<Result<void>> Book::flush() {
  // Files that wait make room for this one first.
  CO_TRY_VOID(co_await store_batches());
  CO_TRY_VOID(log_->finish_file());
  co_return co_await store_batches();
}

Task<Result<void>> Book::store_batches() {
  // One at a time; the next has less to do.
  while (storing_) co_await stored_.wait(loop_.now() + options_.store_interval);
  struct Storing {
    explicit Storing(Book& one) : book(one) {
      book.storing_ = true;
      book.stored_.reset();
    }
    ~Storing() {
      book.storing_ = false;
      book.stored_.set();
    }
    Book& book;
  } const storing(*this);
  while (log_->has_batch()) {
    const CallLog::Batch& batch = log_->first_batch();
    CO_TRY_VOID(co_await ledger_->store_file(batch.number, batch.entries, now()));
    log_->first_batch_is_stored();
  }
  co_return {};
}

Task<Result<std::vector<UsageRow>>> Book::usage(UsageQuery query) {
  CO_TRY_VOID(co_await flush());
  co_return co_await ledger_->usage(std::move(query));
}

}  // namespace pons::budget
