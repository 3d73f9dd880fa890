#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "pons/cell/builtin.h"
#include "pons/cell/protocol.h"
#include "pons/sandbox/provider.h"

// Reads what a cell says. A sandbox may have taken its cell over, so every byte is hostile: a parse
// yields nothing unless all counts, sizes, names and offsets fit together and fit the question.
// Views point into the bytes that were given.

namespace pons::sandbox {

struct CellReply {
  cell::ReplyHeader header;
  std::string_view payload;
};
std::optional<CellReply> parse_cell_reply(std::string_view bytes);

// What was asked, against which the answer is judged.
struct ReadQuestion {
  std::string_view job;
  std::uint64_t output_offset = 0;
  std::uint64_t error_offset = 0;
  std::uint32_t bytes_max = 0;
};

struct ReadAnswer {
  cell::JobState state;
  std::uint64_t output_offset = 0;  // never before the one asked for
  std::uint64_t error_offset = 0;
  std::string_view output;
  std::string_view error;
  bool output_closed = false;
  bool error_closed = false;

  // The job is over and nothing it wrote is left to read.
  bool drained() const {
    return state.ended != cell::Ended::kRunning &&
           output_offset + output.size() == state.output_end &&
           error_offset + error.size() == state.error_end;
  }
};
std::optional<ReadAnswer> parse_read_answer(std::string_view payload, const ReadQuestion& question);

// How far standard input got, from `offset` to `offset + size`. The cell may have more already, of
// an earlier warden; that is asked for again piece by piece and costs nothing.
std::optional<std::uint64_t> parse_write_answer(std::string_view payload, std::uint64_t offset,
                                                std::uint64_t size);

std::optional<std::vector<cell::JobState>> parse_job_list(std::string_view payload);
std::string_view job_name_of(const cell::JobState& state);

// Records of the file builtins, out of a stream in any cut.
struct RecordParse {
  enum class State : std::uint8_t { kRecord, kNeedMore, kRefused } state = State::kNeedMore;
  std::size_t consumed = 0;
};
inline constexpr std::size_t kPathBytesMax = 64 * 1024;
// `out.path` is the name in the record, relative to what was asked.
RecordParse parse_file_record(std::string_view bytes, FileInfo& out);
RecordParse parse_watch_record(std::string_view bytes, FileChange& out);

}  // namespace pons::sandbox
