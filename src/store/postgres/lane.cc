#include "lane.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/log.h"

namespace pons::store::postgres {

namespace {

// When a connection is lost, the outcome of as many is not known.
constexpr std::size_t kUnderWayMax = 16;
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr Duration kSlack = std::chrono::seconds(5);

}  // namespace

Lane::Lane(linux::Loop& loop, Use use, std::size_t connections, const PostgresOptions& options,
           Ears ears)
    : loop_(loop),
      use_(use),
      options_(options),
      ears_(std::move(ears)),
      is_idle_(loop),
      is_open_(loop),
      tasks_(loop) {
  is_idle_.set();
  for (std::size_t i = 0; i < connections; ++i) slots_.push_back({.number = i});
  for (Slot& slot : slots_) tasks_.spawn(keep_open(slot));
}

Lane::~Lane() {
  for (Slot& slot : slots_) slot.link = nullptr;  // what comes back goes nowhere
  tasks_.cancel_all();
  for (const auto& request : waiting_)
    request->answer(make_error(ErrorCode::kUnavailable, "ask store", "the store was closed"));
}

Result<std::shared_ptr<Request>> Lane::push(Transaction statements, std::size_t bytes) {
  if (unanswered_ >= options_.limits.queued ||
      unanswered_bytes_ + bytes > options_.limits.queued_bytes)
    return make_error(ErrorCode::kUnavailable, "ask store",
                      "too much waits for the database already; try again later");
  auto request = std::make_shared<Request>(loop_);
  request->statements = std::move(statements);
  request->may_repeat = use_ != Use::kWrite;
  request->is_counted = true;
  request->bytes = bytes;
  ++unanswered_;
  unanswered_bytes_ += bytes;
  is_idle_.reset();
  waiting_.push_back(request);
  dispatch();
  return request;
}

Task<Result<std::vector<Outcome>>> Lane::wait(std::shared_ptr<Request> request,
                                              TimePoint deadline) {
  if (co_await request->answered.wait(deadline) == linux::Wait::kReady)
    co_return std::move(request->result);
  if (withdraw(*request))
    co_return make_error(
        ErrorCode::kUnavailable, "ask store",
        trouble_ ? fmt::format("{} cannot be reached: {}", options_.shown, trouble_->describe())
                 : "too much waits for the database; try again later");
  co_return make_error(ErrorCode::kTimeout, "ask store",
                       "the database took too long; what was asked for may still happen");
}

bool Lane::is_open() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.link != nullptr; });
}

void Lane::on_notification(Notification notification) {
  if (ears_.heard) ears_.heard(notification);
}

Task<Result<void>> Lane::wait_until_open(TimePoint deadline) {
  if (co_await is_open_.wait(deadline) == linux::Wait::kReady) co_return {};
  if (trouble_) co_return *trouble_;
  co_return make_error(ErrorCode::kUnavailable, "connect to database", "it does not answer");
}

// True when it was never asked, or nothing of it was done.
bool Lane::withdraw(const Request& request) {
  const auto found = std::ranges::find(waiting_, &request, &std::shared_ptr<Request>::get);
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  on_answered(request);
  return true;
}

void Lane::on_answered(const Request& request) {
  if (!request.is_counted) return;  // a connection's own, while it was made ready
  --unanswered_;
  unanswered_bytes_ -= request.bytes;
  if (unanswered_ == 0) is_idle_.set();
  dispatch();
}

void Lane::on_returned(std::shared_ptr<Request> request) {
  if (!request->is_counted)
    return request->answer(
        make_error(ErrorCode::kUnavailable, "ask PostgreSQL", "the connection was lost"));
  waiting_.push_front(std::move(request));
  dispatch();
}

Lane::Slot* Lane::find_free() {
  Slot* best = nullptr;
  for (Slot& slot : slots_) {
    if (slot.link == nullptr || !slot.link->is_open()) continue;
    if (slot.link->under_way() >= kUnderWayMax) continue;
    if (best == nullptr || slot.link->under_way() < best->link->under_way()) best = &slot;
  }
  return best;
}

void Lane::dispatch() {
  while (!waiting_.empty()) {
    Slot* const free = find_free();
    if (free == nullptr) return;
    auto request = std::move(waiting_.front());
    waiting_.pop_front();
    free->link->send(std::move(request));
  }
}

Task<> Lane::keep_open(Slot& slot) {
  Duration pause = kFirstPause;
  for (;;) {
    slot.was_ready = false;
    Error why = co_await use_once(slot);
    slot.link = nullptr;
    if (slot.was_ready) pause = kFirstPause;
    if (!is_open()) {
      if (!trouble_) LOG_WARN("lost the database", {"database", options_.shown}, {"error", why});
      trouble_ = std::move(why);
    }
    // Many that are lost together do not come back together.
    co_await loop_.sleep_for(pause + pause / 8 * static_cast<int>(slot.number));
    pause = std::min(pause * 2, kLongestPause);
  }
}

Task<Error> Lane::use_once(Slot& slot) {
  auto stream = co_await options_.open(loop_.now() + options_.connect_time);
  if (!stream) co_return stream.error();
  Link link(loop_, std::move(*stream),
            {.answer = {.rows = options_.limits.rows, .row_bytes = options_.limits.row_bytes},
             .silence_max = options_.limits.answer_time + kSlack},
            *this);
  linux::TaskGroup preparing(loop_);
  preparing.spawn(prepare(slot, link));
  Error why = co_await link.run();
  slot.link = nullptr;
  co_return why;
}

Task<> Lane::prepare(Slot& slot, Link& link) {
  auto ready =
      co_await set_up(loop_, link, use_, options_.limits, loop_.now() + options_.connect_time);
  if (ready && use_ == Use::kHold && options_.is_alone)
    ready = co_await hold_alone(loop_, link, loop_.now() + options_.connect_time);
  else if (ready && use_ == Use::kHold)
    ready = co_await hold(loop_, link, options_.name, loop_.now() + options_.connect_time);
  if (!ready) co_return link.hang_up(std::move(ready).error());
  slot.link = &link;
  slot.was_ready = true;
  is_open_.set();
  if (trouble_) LOG_INFO("the database is back", {"database", options_.shown});
  trouble_.reset();
  dispatch();
  if (ears_.opened) ears_.opened();
}

}  // namespace pons::store::postgres
