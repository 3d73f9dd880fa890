#pragma once

#include <set>
#include <string>

#include "lane.h"
#include "pons/linux/loop.h"
#include "pons/store/bell.h"

namespace pons::store::postgres {

// LISTEN and NOTIFY on one connection of its own. A NOTIFY in a transaction would make the server
// commit all of them one after the other; so each is a transaction of nothing else, which needs no
// sync, and while one is under way topics gather for the next.
class PostgresBell final : public Bell {
 public:
  // `name` is this process' among those that share the database; `lane` must outlive it.
  PostgresBell(linux::Loop& loop, std::string name, Lane& lane);

  void ring(std::string topic) override;
  void listen(Listener listener) override { listener_ = std::move(listener); }
  bool is_open() const override { return lane_.is_open(); }

  // What the connection hears, and that it hears again: something may have been missed.
  void hear(const Notification& notification) const;
  void hear_again() const;

 private:
  Task<> ring_all();
  std::string take_payload();

  linux::Loop& loop_;
  std::string name_;
  Lane& lane_;
  Listener listener_;
  std::set<std::string> topics_;
  bool is_ringing_ = false;
  linux::TaskGroup tasks_;
};

}  // namespace pons::store::postgres
