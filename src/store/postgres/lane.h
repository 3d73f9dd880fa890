#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "link.h"
#include "pons/store/postgres_store.h"
#include "session.h"

namespace pons::store::postgres {

// A few connections for one use, and what waits for them. Opens again what was lost.
class Lane final : public LinkOwner {
 public:
  // Of a connection that listens: what it hears, and that it hears again.
  struct Ears {
    std::function<void(const Notification&)> heard;
    std::function<void()> opened;
  };
  // `options` must outlive it.
  Lane(linux::Loop& loop, Use use, std::size_t connections, const PostgresOptions& options,
       Ears ears = {});
  ~Lane() override;

  // kUnavailable when too much waits already.
  Result<std::shared_ptr<Request>> push(Transaction statements, std::size_t bytes);
  // The answer, or what is so when there is none in time.
  Task<Result<std::vector<Outcome>>> wait(std::shared_ptr<Request> request, TimePoint deadline);
  bool is_open() const;
  // An error when there is no connection by then: why.
  Task<Result<void>> wait_until_open(TimePoint deadline);
  auto wait_until_idle(TimePoint deadline) { return is_idle_.wait(deadline); }

 private:
  struct Slot {
    std::size_t number;
    Link* link = nullptr;  // while it can be used
    bool was_ready = false;
  };
  Task<> keep_open(Slot& slot);
  Task<Error> use_once(Slot& slot);
  Task<> prepare(Slot& slot, Link& link);
  void dispatch();
  Slot* find_free();
  bool withdraw(const Request& request);

  void on_answered(const Request& request) override;
  void on_returned(std::shared_ptr<Request> request) override;
  void on_notification(Notification notification) override;

  linux::Loop& loop_;
  const Use use_;
  const PostgresOptions& options_;
  const Ears ears_;
  std::vector<Slot> slots_;
  std::deque<std::shared_ptr<Request>> waiting_;
  std::size_t unanswered_ = 0;
  std::size_t unanswered_bytes_ = 0;
  std::optional<Error> trouble_;  // why there is no connection
  linux::Event is_idle_;
  linux::Event is_open_;  // has been, once
  linux::TaskGroup tasks_;
};

}  // namespace pons::store::postgres
