#pragma once

#include "line_stream.h"
#include "pons/sandbox/provider.h"

namespace pons::sandbox {

// A job followed over HTTP: the lines behind {"job":ID}.
class RemoteJob final : public JobStream {
 public:
  RemoteJob(LineStream lines, JobOffsets from) : lines_(std::move(lines)), at_(from) {}

  // Reads the first line; before anything else.
  Task<Result<void>> open(TimePoint deadline);

  const std::string& job_id() const override { return id_; }
  Task<Result<std::optional<JobEvent>>> next(
      std::chrono::steady_clock::time_point deadline) override;
  bool has_next() const override { return !ended_ && lines_.has_next(); }

 private:
  Error cut(Error error) const;
  Result<void> advance(const Output& output);

  LineStream lines_;
  JobOffsets at_;
  std::string id_;
  bool ended_ = false;
};

class RemoteChanges final : public ChangeStream {
 public:
  explicit RemoteChanges(LineStream lines) : lines_(std::move(lines)) {}
  Task<Result<FileChange>> next(std::chrono::steady_clock::time_point deadline) override;

 private:
  LineStream lines_;
};

}  // namespace pons::sandbox
