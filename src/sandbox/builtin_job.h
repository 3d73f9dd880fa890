#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fleet.h"

namespace pons::sandbox {

// A program of the cell that works on files, run as a job that is listed nowhere. It is ended and
// forgotten when this object goes.
class BuiltinJob {
 public:
  struct Words {
    std::vector<std::string> argv;
    std::string user;
    bool has_input = false;
  };
  static Task<Result<std::unique_ptr<BuiltinJob>>> start(Fleet& fleet, Call call, Words words);
  ~BuiltinJob();
  BuiltinJob(const BuiltinJob&) = delete;
  BuiltinJob& operator=(const BuiltinJob&) = delete;

  // The next piece of output; empty when it ended well. Its failure is the error, by errno.
  // kTimeout at the deadline loses nothing.
  Task<Result<std::string>> read(TimePoint deadline);
  // All of the output.
  Task<Result<std::string>> read_all(std::size_t bytes_max);
  // False when it takes no more: read() then tells why.
  Task<Result<bool>> write(std::string bytes);
  Task<Result<void>> close_input();

 private:
  BuiltinJob(Fleet& fleet, Call call, std::string name);
  Result<void> accept(std::string_view payload);
  Error failure() const;

  Fleet& fleet_;
  Call call_;
  std::string name_;
  JobOffsets offsets_;
  std::string output_;
  std::string complaint_;  // of standard error, its beginning
  std::uint64_t input_offset_ = 0;
  bool over_ = false;
  int exit_code_ = 0;
};

}  // namespace pons::sandbox
