#pragma once

#include <functional>
#include <optional>
#include <string>

#include "pons/base/result.h"
#include "pons/linux/fd.h"

namespace pons::templates {

// A child process for work on hostile input. It sees one directory as its root and nothing else of
// the host: namespaces of its own without a network, no program to execute, no descriptor but the
// two it is given, and of root's rights only those over files. The destructor kills it.
class Jail {
 public:
  // `work` runs in a copy of this process with the descriptors renumbered to kInput and kReport;
  // its result is the exit code. Without root the child is root of a user namespace with one id.
  static constexpr int kInput = 3;
  static constexpr int kReport = 4;
  static Result<Jail> start(const std::string& directory, int input_fd, int report_fd,
                            const std::function<int()>& work);

  Jail(Jail&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Jail& operator=(Jail&&) = delete;
  ~Jail();

  // Waits for the end. 0: the work's own success.
  int wait();

 private:
  explicit Jail(int pid) : pid_(pid) {}
  int pid_;
};

}  // namespace pons::templates
