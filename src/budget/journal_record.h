#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pons/base/result.h"
#include "pons/budget/usage.h"
#include "pons/models/answer.h"

// What stands in a journal: records, each with its length and checksum before it.

namespace pons::budget {

inline constexpr std::size_t kRecordBytesMax = 1024;
inline constexpr std::size_t kPathMax = 256;
inline constexpr std::size_t kTextMax = 128;  // of each other text

struct FileBegins {
  std::int64_t number = 0;
  bool operator==(const FileBegins&) const = default;
};
struct Reserved {
  std::string id;
  std::string project_id;
  std::string path;  // of its node: "mk_a/mk_b"
  std::string model;
  std::string provider;
  models::Usage estimate;
  std::int64_t input_nano = 0;  // what the estimated prompt alone costs
  std::int64_t time_ms = 0;
  bool operator==(const Reserved&) const = default;
};
// It is with the provider, and has used so much.
struct Progress {
  std::string id;
  models::Usage usage;
  std::int64_t cost_nano = 0;
  bool operator==(const Progress&) const = default;
};
struct Settled {
  std::string id;
  models::Usage usage;
  std::int64_t sandbox_seconds = 0;
  std::int64_t requests = 1;
  std::int64_t cost_nano = 0;
  Outcome outcome = Outcome::kDone;
  std::int64_t time_ms = 0;
  bool operator==(const Settled&) const = default;
};
struct Released {
  std::string id;
  bool operator==(const Released&) const = default;
};
using Record = std::variant<FileBegins, Reserved, Progress, Settled, Released>;

// Text that a record can hold: no control characters, 0 to `bytes_max` bytes.
bool is_record_text(std::string_view text, std::size_t bytes_max = kTextMax);

void append_record(std::string& out, const Record& record);

struct Records {
  std::vector<Record> records;
  std::size_t bytes = 0;  // that they stand in
  // Where a whole one stands behind what is none: the file is damaged. A bad record with nothing
  // whole behind it is merely where a process died.
  std::optional<std::size_t> whole_again = std::nullopt;
};
// Those before the first bad one.
Records read_records(std::string_view bytes);

}  // namespace pons::budget
