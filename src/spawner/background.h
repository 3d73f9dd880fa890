#pragma once

#include <sys/types.h>

#include <functional>

#include "pons/base/result.h"
#include "pons/linux/cgroup.h"
#include "pons/linux/fd.h"

namespace pons::spawner {

// Work that takes as long as a sandbox's files make it take, in a process of its own: the spawner
// goes on meanwhile, and is not hurt by what the work meets.
class Background {
 public:
  // `work` may write up to a pipe's worth of results to the descriptor it gets.
  // With `charged`, what it writes to memory counts as that group's as far as the host knows how;
  // and when that is too much, it is the work that ends (ENOMEM) and none of the others in it.
  static Result<Background> start(const std::function<Result<void>(int results)>& work,
                                  linux::Cgroup* charged = nullptr);

  int pidfd() const { return pidfd_.get(); }  // readable when it has ended
  struct Ended {
    int os_error = 0;
    std::string results;
    bool killed = false;  // and could not clean up
  };
  Ended collect();  // once, after it ended
  void kill();

 private:
  Background(linux::UniqueFd pidfd, linux::UniqueFd results)
      : pidfd_(std::move(pidfd)), results_(std::move(results)) {}
  linux::UniqueFd pidfd_;
  linux::UniqueFd results_;
};

}  // namespace pons::spawner
