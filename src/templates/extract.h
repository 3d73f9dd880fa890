#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "jail.h"
#include "layer_writer.h"
#include "pons/base/result.h"
#include "pons/linux/fd.h"
#include "pons/templates/tree.h"

namespace pons::templates {

struct Extracted {
  WriterCounts counts;
  std::string tar_digest;  // SHA-256 of the archive without its compression
};

// A tar archive, plain or compressed by gzip or zstd, being unpacked into a directory by a process
// that can reach nothing else. Ends with this object.
class Extraction {
 public:
  static Result<Extraction> start(int input_fd, const std::string& directory,
                                  const TreeLimits& limits);

  int fd() const { return reports_.get(); }  // readable: call `advance`
  // Unpacked bytes so far.
  std::uint64_t bytes_done() const { return bytes_done_; }
  // Reads one report. Something when it is the last one. Blocks when there is none.
  Result<std::optional<Extracted>> advance();

 private:
  Extraction(linux::UniqueFd reports, Jail jail)
      : reports_(std::move(reports)), jail_(std::move(jail)) {}
  linux::UniqueFd reports_;
  Jail jail_;
  std::uint64_t bytes_done_ = 0;
};

// All of it, with the unpacked bytes told now and then.
Result<Extracted> extract_tar(int input_fd, const std::string& directory, const TreeLimits& limits,
                              const std::function<void(std::uint64_t)>& progress);

}  // namespace pons::templates
