#include "pons/linux/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "pons/base/log.h"
#include "pons/linux/simulated_time.h"

namespace pons::linux {

namespace {
constexpr int kEventsPerRound = 256;
}

// ---- waiting

Waiter::~Waiter() {
  loop_.remove_timer(*this);
  if (runnable_index_ != kNowhere) loop_.runnable_[runnable_index_] = nullptr;
}

void Waiter::suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  if (deadline_ != kNever) loop_.add_timer(*this);
}

void Waiter::resume(Wait outcome) {
  loop_.remove_timer(*this);
  outcome_ = outcome;
  handle_.resume();
}

void Waiter::schedule() {
  loop_.remove_timer(*this);
  runnable_index_ = loop_.runnable_.size();
  loop_.runnable_.push_back(this);
}

void Event::set() {
  set_ = true;
  for (Waiter* waiter : std::exchange(waiting_, {})) waiter->schedule();
}

// ---- groups of tasks

// Links the coroutine into its group for as long as its frame lives.
struct TaskGroup::Promise {
  Promise(TaskGroup& owner, Task<>&) : group(owner), next(owner.first_) {
    if (next != nullptr) next->prev = this;
    group.first_ = this;
    if (group.size_++ == 0) group.emptied_.reset();
  }
  ~Promise() {
    (prev != nullptr ? prev->next : group.first_) = next;
    if (next != nullptr) next->prev = prev;
    if (--group.size_ == 0) group.emptied_.set();
  }
  Member get_return_object() { return {}; }
  std::suspend_never initial_suspend() noexcept { return {}; }
  std::suspend_never final_suspend() noexcept { return {}; }
  void return_void() {}
  void unhandled_exception() {
    try {
      throw;
    } catch (const std::exception& exception) {
      LOG_ERROR("a task ended with an exception", {"what", exception.what()});
    } catch (...) {
      LOG_ERROR("a task ended with an unknown exception");
    }
  }

  TaskGroup& group;
  Promise* prev = nullptr;
  Promise* next;
};

TaskGroup::Member TaskGroup::run(TaskGroup&, Task<> task) {
  co_await std::move(task);
}

void TaskGroup::spawn(Task<> task) {
  run(*this, std::move(task));
}

void TaskGroup::cancel_all() {
  while (first_ != nullptr) std::coroutine_handle<Promise>::from_promise(*first_).destroy();
}

// ---- the loop

Result<std::unique_ptr<Loop>> Loop::create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return os_error("create event loop");
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup) return os_error("create event loop");
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {}};
  std::unique_ptr<Loop> loop(new Loop(std::move(epoll), std::move(wakeup)));
  event.data.ptr = loop.get();  // told apart from the watches by its address
  if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wakeup_.get(), &event) != 0)
    return os_error("create event loop");
  return loop;
}

Loop::Loop(UniqueFd epoll, UniqueFd wakeup)
    : epoll_(std::move(epoll)),
      wakeup_(std::move(wakeup)),
      now_(std::chrono::steady_clock::now()),
      events_(new epoll_event[kEventsPerRound]) {}

Loop::~Loop() = default;

namespace {

// Of the one whose time is simulated, on this thread.
thread_local const Loop* simulated_loop = nullptr;

}  // namespace

SimulatedTime::SimulatedTime(Loop& loop) {
  CHECK(simulated_loop == nullptr);
  simulated_loop = &loop;
}

SimulatedTime::~SimulatedTime() {
  simulated_loop = nullptr;
}

void Loop::run() {
  for (;;) {
    {
      const std::scoped_lock lock(posted_mutex_);
      if (std::exchange(stop_, false)) return;
    }
    const bool is_simulated = simulated_loop == this;
    const int count = is_simulated ? poll_events(Duration::zero()) : wait_for_events();
    if (!is_simulated) {
      now_ = std::chrono::steady_clock::now();
    } else if (count == 0 && runnable_.empty()) {
      if (timers_.empty()) return;
      now_ = std::max(now_, timers_.front()->deadline_);
    }
    dispatch_events(count);
    dispatch_timers();
    dispatch_runnable();
  }
}

void Loop::stop() {
  {
    const std::scoped_lock lock(posted_mutex_);
    stop_ = true;
  }
  eventfd_write(wakeup_.get(), 1);
}

void Loop::post(std::move_only_function<void()> work) {
  {
    const std::scoped_lock lock(posted_mutex_);
    posted_.push_back(std::move(work));
  }
  eventfd_write(wakeup_.get(), 1);
}

int Loop::wait_for_events() {
  Duration left = Duration::zero();
  const TimePoint begin = std::chrono::steady_clock::now();
  if (runnable_.empty())
    left = timers_.empty() ? Duration::max()
                           : std::max(Duration::zero(), timers_.front()->deadline_ - begin);
  if (left == Duration::zero()) return poll_events(left);
  if (waits_are_short_) {
    if (const int count = look_for_events(std::min(left, look_for_)); count > 0) return count;
  }
  const int count = poll_events(left);
  if (look_for_ > Duration::zero())
    waits_are_short_ = std::chrono::steady_clock::now() - begin < look_for_;
  return count;
}

int Loop::look_for_events(Duration at_most) {
  const TimePoint end = std::chrono::steady_clock::now() + at_most;
  do {
    if (const int count = poll_events(Duration::zero()); count > 0) return count;
  } while (std::chrono::steady_clock::now() < end);
  return 0;
}

int Loop::poll_events(Duration timeout) {
  const timespec wait{.tv_sec = timeout.count() / 1'000'000'000,
                      .tv_nsec = timeout.count() % 1'000'000'000};
  const int count = epoll_pwait2(epoll_.get(), events_.get(), kEventsPerRound,
                                 timeout == Duration::max() ? nullptr : &wait, nullptr);
  CHECK(count >= 0 || errno == EINTR);
  return std::max(count, 0);
}

void Loop::dispatch_events(int count) {
  events_end_ = count;
  for (events_begin_ = 0; events_begin_ < events_end_; ++events_begin_) {
    epoll_event& event = events_[events_begin_];
    if (event.data.ptr == nullptr) continue;  // its watch died earlier in this round
    if (event.data.ptr == this) {
      dispatch_posted();
      continue;
    }
    auto* state = static_cast<Watch::State*>(event.data.ptr);
    if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) state->failed = true;
    if (state->failed || (event.events & EPOLLRDHUP) != 0) state->hung_up = true;
    if (state->hung_up || (event.events & EPOLLIN) != 0) state->notify(Watch::kRead);
    // The reader may have destroyed the watch; the pointer is null then.
    if (event.data.ptr != nullptr && (event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0)
      state->notify(Watch::kWrite);
  }
  events_end_ = 0;
}

void Loop::dispatch_timers() {
  while (!timers_.empty() && timers_.front()->deadline_ <= now_)
    timers_.front()->resume(Wait::kTimeout);
}

void Loop::dispatch_runnable() {
  // What these coroutines schedule in turn belongs to the next round, so that descriptors get their
  // turn.
  const std::size_t count = runnable_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Waiter* waiter = std::exchange(runnable_[i], nullptr);
    if (waiter == nullptr) continue;
    waiter->runnable_index_ = Waiter::kNowhere;
    waiter->resume(Wait::kReady);
  }
  runnable_.erase(runnable_.begin(), runnable_.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < runnable_.size(); ++i)
    if (runnable_[i] != nullptr) runnable_[i]->runnable_index_ = i;
}

void Loop::dispatch_posted() {
  eventfd_t ignored = 0;
  eventfd_read(wakeup_.get(), &ignored);
  std::vector<std::move_only_function<void()>> work;
  {
    const std::scoped_lock lock(posted_mutex_);
    work.swap(posted_);
  }
  for (auto& item : work) item();
}

void Loop::forget_events_of(void* watch_state) {
  for (int i = events_begin_; i < events_end_; ++i)
    if (events_[i].data.ptr == watch_state) events_[i].data.ptr = nullptr;
}

// ---- timers: a binary heap whose entries know their place, so that a wait that ends early leaves
// in O(log n)

void Loop::add_timer(Waiter& waiter) {
  timers_.push_back(&waiter);
  waiter.timer_index_ = timers_.size() - 1;
  sift_timer(waiter.timer_index_);
}

void Loop::remove_timer(Waiter& waiter) {
  const std::size_t index = std::exchange(waiter.timer_index_, Waiter::kNowhere);
  if (index == Waiter::kNowhere) return;
  Waiter* last = timers_.back();
  timers_.pop_back();
  if (last == &waiter) return;
  place_timer(index, last);
  sift_timer(index);
}

void Loop::place_timer(std::size_t index, Waiter* waiter) {
  timers_[index] = waiter;
  waiter->timer_index_ = index;
}

void Loop::sift_timer(std::size_t index) {
  Waiter* moving = timers_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 2;
    if (timers_[parent]->deadline_ <= moving->deadline_) break;
    place_timer(index, timers_[parent]);
    index = parent;
  }
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= timers_.size()) break;
    if (child + 1 < timers_.size() && timers_[child + 1]->deadline_ < timers_[child]->deadline_)
      ++child;
    if (moving->deadline_ <= timers_[child]->deadline_) break;
    place_timer(index, timers_[child]);
    index = child;
  }
  place_timer(index, moving);
}

// ---- descriptors

Result<Watch> Watch::create(Loop& loop, int fd) {
  auto state = std::make_unique<State>(State{.loop = loop, .fd = fd});
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data = {.ptr = state.get()}};
  if (epoll_ctl(loop.epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return os_error("watch descriptor");
  return Watch(std::move(state));
}

Watch& Watch::operator=(Watch&& other) noexcept {
  Watch incoming(std::move(other));
  std::swap(state_, incoming.state_);
  return *this;
}

void Watch::close() noexcept {
  if (state_ == nullptr) return;
  CHECK(state_->waiting[kRead] == nullptr && state_->waiting[kWrite] == nullptr);
  epoll_ctl(state_->loop.epoll_.get(), EPOLL_CTL_DEL, state_->fd, nullptr);
  state_->loop.forget_events_of(state_.get());
  state_.reset();
}

// The kernel looks again at once: room that is there already is told of, too.
void Watch::State::ask_for_room() {
  tells_of_room = true;
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = this}};
  CHECK(epoll_ctl(loop.epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void Watch::State::notify(Direction direction) {
  if (Waiter* waiter = std::exchange(waiting[direction], nullptr)) {
    waiter->resume(Wait::kReady);
  } else {
    ready[direction] = true;
  }
}

}  // namespace pons::linux
