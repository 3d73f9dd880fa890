#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::spawner {

// Takes down what is left of ended sandboxes, in a process of its own: whoever closes the last
// descriptor of a mount namespace or of a file system waits for the kernel, and for as long as the
// files in it make it wait. It ends when its socket does, having finished what it was given.
class Undertaker {
 public:
  static Result<Undertaker> start();

  struct Remains {
    std::vector<linux::UniqueFd> descriptors;
    std::vector<std::string> groups;  // directories of control groups in which nobody is left
  };
  // Does it here and now when there is nobody to do it.
  void take(Remains remains);
  // Waits until everything is done, or the time is over. Nothing can be given to it afterwards.
  void finish(std::chrono::milliseconds time);

 private:
  Undertaker(linux::UniqueFd socket, linux::UniqueFd pidfd)
      : socket_(std::move(socket)), pidfd_(std::move(pidfd)) {}
  linux::UniqueFd socket_;
  linux::UniqueFd pidfd_;
};

}  // namespace pons::spawner
