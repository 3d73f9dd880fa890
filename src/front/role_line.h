#pragma once

#include <list>
#include <string>

#include "pons/base/clock.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"

namespace pons::front {

// The connections to one role behind the door. Counts them, so that what lasts long leaves room for
// what is short; and finds out when the role takes requests and answers none of them, so that
// clients hear of it instead of waiting.
class RoleLine {
 public:
  // `health` asks the same role; all must outlive the connections.
  RoleLine(linux::Loop& loop, std::string role, int channel, http::Client& health)
      : loop_(loop), role_(std::move(role)), channel_(channel), health_(health), asked_(loop) {}

  // Refuses (kLimit) while `open_max` connections of this line are open, and (kUnavailable) while
  // the role does not answer.
  http::Connector connector(std::size_t open_max);

  // Watches over the role whenever somebody waits for it; never ends.
  Task<> watch();

  std::size_t open() const { return open_.size(); }
  bool is_stuck() const { return stuck_; }

 private:
  class Connection;
  Task<Result<std::unique_ptr<http::Transport>>> connect(std::size_t open_max);
  bool is_waited_for(Duration at_least) const;
  void cut_waiting();
  Task<bool> answers();

  linux::Loop& loop_;
  std::string role_;
  int channel_;
  http::Client& health_;
  std::list<Connection*> open_;
  linux::Event asked_;
  bool stuck_ = false;
};

}  // namespace pons::front
