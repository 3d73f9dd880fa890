#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/audit/audit_log.h"
#include "pons/base/result.h"

namespace pons::audit {

struct Finding {
  std::string file;
  std::uint64_t line = 0;
  std::string what;  // for people
};

struct Report {
  bool intact = false;
  std::uint64_t files = 0;
  std::uint64_t events = 0;
  std::uint64_t first_seq = 0;  // above 1 when the oldest files were removed by configuration
  Head head;
  std::vector<Finding> findings;   // what is wrong, the first 100
  std::vector<std::string> notes;  // what is unusual and not wrong
};

// Reads a whole log, whoever writes it meanwhile. `known_hash`: a head that was noted down earlier;
// a log that does not hold it was cut or rewritten. Empty: none is known, and an end that was cut
// off at a line cannot be told.
Result<Report> verify(const std::string& directory, std::string_view known_hash = {});

// The last lines, oldest first.
Result<std::vector<std::string>> tail(const std::string& directory, std::size_t lines);

// Gives complete lines in order, and later those that were added since.
class Reader {
 public:
  explicit Reader(std::string directory) : directory_(std::move(directory)) {}
  // Begins behind what is there now.
  Result<void> skip_to_end();
  // Calls `take` for every complete line that was not given yet; false ends it early.
  Result<void> read(const std::function<bool(std::string_view)>& take);

 private:
  std::string directory_;
  std::uint64_t number_ = 0;  // of the file that is being read
  std::uint64_t offset_ = 0;
};

}  // namespace pons::audit
