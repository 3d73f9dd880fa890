#pragma once

#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/fd.h"

// One event loop per thread, nothing shared between loops. Work is written as coroutines that wait
// for descriptors (Watch), for time (Loop::sleep_until) or for each other (Event). Every wait takes
// a deadline, and every wait is cancelled by destroying the coroutine that waits. Everything here
// belongs to its loop's thread, except Loop::post and Loop::stop.

struct epoll_event;  // NOLINT(readability-identifier-naming): the kernel's

namespace pons::linux {

class Loop;

enum class Wait : std::uint8_t { kReady, kTimeout };

// A coroutine that is suspended until something happens or its deadline passes. Lives in the
// coroutine's frame, so destroying the coroutine ends the wait.
class Waiter {
 public:
  Waiter(Loop& loop, TimePoint deadline) : loop_(loop), deadline_(deadline) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  void suspend(std::coroutine_handle<> handle);
  void resume(Wait outcome);  // at once; *this may be gone afterwards
  void schedule();            // as ready, in the loop's next round
  Wait outcome() const { return outcome_; }

 private:
  friend class Loop;
  static constexpr std::size_t kNowhere = SIZE_MAX;

  Loop& loop_;
  TimePoint deadline_;
  std::coroutine_handle<> handle_;
  std::size_t timer_index_ = kNowhere;
  std::size_t runnable_index_ = kNowhere;
  Wait outcome_ = Wait::kReady;
};

// Something that one coroutine tells others. Stays set until reset.
class Event {
 public:
  explicit Event(Loop& loop) : loop_(loop) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void set();
  void reset() { set_ = false; }
  bool is_set() const { return set_; }

  auto wait(TimePoint deadline) {
    struct Awaiter : Waiter {
      Awaiter(Event& e, TimePoint d) : Waiter(e.loop_, d), event(e) {}
      ~Awaiter() { event.forget(this); }
      bool await_ready() const { return event.set_; }
      void await_suspend(std::coroutine_handle<> handle) {
        event.waiting_.push_back(this);
        suspend(handle);
      }
      Wait await_resume() const { return outcome(); }
      Event& event;
    };
    return Awaiter(*this, deadline);
  }

 private:
  void forget(Waiter* waiter) { std::erase(waiting_, waiter); }
  Loop& loop_;
  bool set_ = false;
  std::vector<Waiter*> waiting_;
};

// Running coroutines with one owner. Destroying the group cancels them all; no task may destroy the
// group it is in.
class TaskGroup {
 public:
  explicit TaskGroup(Loop& loop) : emptied_(loop) { emptied_.set(); }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup() { cancel_all(); }

  // Runs `task` at once, up to its first wait. An exception that reaches its end is logged and ends
  // only this task.
  void spawn(Task<> task);
  void cancel_all();
  std::size_t size() const { return size_; }
  auto wait_until_empty(TimePoint deadline) { return emptied_.wait(deadline); }

 private:
  struct Promise;
  struct Member {
    using promise_type = Promise;
  };
  static Member run(TaskGroup& group, Task<> task);
  std::size_t size_ = 0;
  Promise* first_ = nullptr;
  Event emptied_;
};

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> create();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();  // until stop() is called
  void stop();
  // Runs `work` on the loop's thread, soon. From any thread.
  void post(std::move_only_function<void()> work);
  // Tasks that live as long as the loop.
  void spawn(Task<> task) { tasks_.spawn(std::move(task)); }

  // For a loop whose latency is worth some processor time: before it sleeps, it looks for events
  // for up to `longest`, as long as the last wait was that short. An idle loop still sleeps at
  // once.
  void look_before_sleeping(Duration longest) { look_for_ = longest; }

  // The time when this round of events began: cheap, and good enough for deadlines.
  TimePoint now() const { return now_; }

  auto sleep_until(TimePoint when) {
    struct Sleep : Waiter {
      using Waiter::Waiter;
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> handle) { suspend(handle); }
      void await_resume() const {}
    };
    return Sleep(*this, when);
  }
  auto sleep_for(Duration duration) { return sleep_until(now_ + duration); }

  // Lets everyone else have a turn first. For work that may go on without ever having to wait.
  auto next_round() {
    struct Yield : Waiter {
      explicit Yield(Loop& loop) : Waiter(loop, kNever) {}
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> handle) {
        suspend(handle);
        schedule();
      }
      void await_resume() const {}
    };
    return Yield(*this);
  }

 private:
  friend class Watch;
  friend class Waiter;
  Loop(UniqueFd epoll, UniqueFd wakeup);
  int wait_for_events();
  int look_for_events(Duration at_most);
  int poll_events(Duration timeout);
  void dispatch_events(int count);
  void dispatch_timers();
  void dispatch_runnable();
  void dispatch_posted();
  void forget_events_of(void* watch_state);
  void add_timer(Waiter& waiter);
  void remove_timer(Waiter& waiter);
  void place_timer(std::size_t index, Waiter* waiter);
  void sift_timer(std::size_t index);

  UniqueFd epoll_;
  UniqueFd wakeup_;  // eventfd: another thread posted
  TimePoint now_;
  Duration look_for_{};
  bool waits_are_short_ = false;   // the last one was
  std::vector<Waiter*> timers_;    // binary heap by deadline
  std::vector<Waiter*> runnable_;  // null where a waiter died after it was scheduled
  std::unique_ptr<epoll_event[]> events_;
  int events_begin_ =
      0;  // the part of the batch still to be dispatched: what it points to may die meanwhile
  int events_end_ = 0;
  std::mutex posted_mutex_;
  std::vector<std::move_only_function<void()>> posted_;  // guarded by posted_mutex_
  bool stop_ = false;                                    // guarded by posted_mutex_
  TaskGroup tasks_{*this};  // last: its tasks use all of the above until they are gone
};

// Watches one descriptor, edge-triggered; for room to write only from the first wait for it on,
// because a Unix socket tells of new room each time its peer reads. Does not own the descriptor:
// destroy the watch first.
//
// The pattern: try the system call; on EAGAIN `co_await watch.readable(deadline)`; try again. A
// wake-up may be spurious. One coroutine may wait for each direction.
class Watch {
 public:
  static Result<Watch> create(Loop& loop, int fd);
  Watch(Watch&& other) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch() { close(); }

  auto readable(TimePoint deadline) { return Awaiter(*state_, kRead, deadline); }
  auto writable(TimePoint deadline) { return Awaiter(*state_, kWrite, deadline); }
  // The peer closed its side, or the descriptor failed. Known once the loop has seen it.
  bool hung_up() const { return state_->hung_up; }
  Loop& loop() const { return state_->loop; }

 private:
  friend class Loop;
  enum Direction : std::uint8_t { kRead, kWrite };
  struct State {
    Loop& loop;
    int fd;
    bool ready[2] = {false, false};
    bool hung_up = false;  // for good: from now on reading never blocks
    bool failed = false;   // for good: writing does not either. A peer that only closed its own
                           // direction may still read, and not be ready to
    Waiter* waiting[2] = {nullptr, nullptr};
    bool tells_of_room = false;

    void notify(Direction direction);
    void ask_for_room();
  };

  class Awaiter : public Waiter {
   public:
    Awaiter(State& state, Direction direction, TimePoint deadline)
        : Waiter(state.loop, deadline), state_(state), direction_(direction) {}
    ~Awaiter() {
      if (state_.waiting[direction_] == this) state_.waiting[direction_] = nullptr;
    }
    bool await_ready() {
      const bool over = direction_ == kRead ? state_.hung_up : state_.failed;
      return std::exchange(state_.ready[direction_], false) || over;
    }
    void await_suspend(std::coroutine_handle<> handle) {
      CHECK(state_.waiting[direction_] == nullptr);
      state_.waiting[direction_] = this;
      suspend(handle);
      if (direction_ == kWrite && !state_.tells_of_room) state_.ask_for_room();
    }
    Wait await_resume() const { return outcome(); }

   private:
    State& state_;
    Direction direction_;
  };

  explicit Watch(std::unique_ptr<State> state) : state_(std::move(state)) {}
  void close() noexcept;

  std::unique_ptr<State> state_;  // on the heap: epoll holds its address
};

namespace detail {
template <class T>
Task<> collect(Task<T> task, std::optional<T>& value, Event& done) {
  struct Done {
    Event& event;
    ~Done() { event.set(); }  // also when the task throws
  } const at_end{done};
  value.emplace(co_await std::move(task));
}
}  // namespace detail

// The task's value, or nothing when the deadline passed first; the task is cancelled then.
template <class T>
Task<std::optional<T>> within(Loop& loop, TimePoint deadline, Task<T> task) {
  std::optional<T> value;
  Event done(loop);
  TaskGroup group(loop);
  group.spawn(detail::collect(std::move(task), value, done));
  co_await done.wait(deadline);
  co_return std::move(value);
}

}  // namespace pons::linux
