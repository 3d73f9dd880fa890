#include "cell_reply.h"

#include <algorithm>
#include <cstring>

#include "pons/base/text.h"

namespace pons::sandbox {

namespace {

constexpr std::uint32_t kPidMax = 1U << 22;  // of the kernel
constexpr int kSignalMax = 64;

template <class T>
bool take(std::string_view& bytes, T& out) {
  if (bytes.size() < sizeof out) return false;
  std::memcpy(&out, bytes.data(), sizeof out);
  bytes.remove_prefix(sizeof out);
  return true;
}

bool is_sound(const cell::JobState& state) {
  using cell::Ended;
  if (job_name_of(state).empty()) return false;
  if (state.ended > Ended::kLimit || state.pid > kPidMax) return false;
  if (state.ended == Ended::kExit && (state.code < 0 || state.code > 255)) return false;
  if (state.ended == Ended::kSignal && (state.code < 1 || state.code > kSignalMax)) return false;
  if (state.ended != Ended::kRunning && state.ended_ms < state.started_ms) return false;
  return state.output_kept <= state.output_end && state.error_kept <= state.error_end;
}

bool take_attributes(std::string_view bytes, std::map<std::string, std::string>& out) {
  const auto take_word = [&bytes](std::string& word) {
    const std::size_t end = bytes.find('\0');
    if (end == std::string_view::npos) return false;
    word = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    return true;
  };
  std::string name;
  std::string value;
  while (!bytes.empty()) {
    if (!take_word(name) || name.empty() || !is_valid_utf8(name) || !take_word(value)) return false;
    out[name] = value;
  }
  return true;
}

// The stream goes from `asked` on, may have lost its oldest bytes, and ends before `end`.
bool is_sound_piece(std::uint64_t asked, std::uint64_t offset, std::uint32_t size,
                    std::uint64_t end) {
  return offset >= asked && offset <= end && size <= end - offset;
}

}  // namespace

std::string_view job_name_of(const cell::JobState& state) {
  return {state.job, strnlen(state.job, sizeof state.job)};
}

std::optional<CellReply> parse_cell_reply(std::string_view bytes) {
  CellReply reply{};
  if (bytes.size() > cell::kMessageBytesMax || !take(bytes, reply.header)) return std::nullopt;
  const cell::ReplyHeader& header = reply.header;
  if (header.magic != cell::kMagic || header.status > cell::Status::kInputClosed ||
      header.step > cell::Step::kHostname || header.os_error < 0 || header.os_error > 4095)
    return std::nullopt;
  reply.payload = bytes;
  return reply;
}

std::optional<ReadAnswer> parse_read_answer(std::string_view payload,
                                            const ReadQuestion& question) {
  cell::ReadReply reply;
  if (!take(payload, reply)) return std::nullopt;
  if (!is_sound(reply.state) || job_name_of(reply.state) != question.job) return std::nullopt;
  if (reply.output_closed > 1 || reply.error_closed > 1) return std::nullopt;
  const std::uint64_t size = std::uint64_t{reply.output_size} + reply.error_size;
  if (size != payload.size() || size > question.bytes_max) return std::nullopt;
  if (!is_sound_piece(question.output_offset, reply.output_offset, reply.output_size,
                      reply.state.output_end) ||
      !is_sound_piece(question.error_offset, reply.error_offset, reply.error_size,
                      reply.state.error_end))
    return std::nullopt;
  return ReadAnswer{.state = reply.state,
                    .output_offset = reply.output_offset,
                    .error_offset = reply.error_offset,
                    .output = payload.substr(0, reply.output_size),
                    .error = payload.substr(reply.output_size),
                    .output_closed = reply.output_closed == 1,
                    .error_closed = reply.error_closed == 1};
}

std::optional<std::uint64_t> parse_write_answer(std::string_view payload, std::uint64_t offset,
                                                std::uint64_t size) {
  cell::WriteReply reply;
  if (!take(payload, reply) || !payload.empty()) return std::nullopt;
  if (reply.taken < offset) return std::nullopt;
  return offset + std::min(reply.taken - offset, size);
}

std::optional<std::vector<cell::JobState>> parse_job_list(std::string_view payload) {
  if (payload.size() % sizeof(cell::JobState) != 0 ||
      payload.size() / sizeof(cell::JobState) > cell::kJobsMax)
    return std::nullopt;
  std::vector<cell::JobState> jobs(payload.size() / sizeof(cell::JobState));
  for (cell::JobState& state : jobs)
    if (!take(payload, state) || !is_sound(state)) return std::nullopt;
  return jobs;
}

RecordParse parse_file_record(std::string_view bytes, FileInfo& out) {
  using State = RecordParse::State;
  const std::size_t before = bytes.size();
  cell::FileRecord record;
  if (!take(bytes, record)) return {};
  if (record.magic != cell::kFileRecordMagic || record.kind > cell::FileKind::kLink ||
      record.mode > 07777 || record.name_size > kPathBytesMax || record.link_size > kPathBytesMax ||
      record.attributes_size > cell::kAttributesBytesMax || record.has_end > 1 ||
      record.end_kind > cell::FileKind::kLink || record.end_mode > 07777 ||
      record.end_path_size > kPathBytesMax)
    return {.state = State::kRefused};
  const std::size_t before_end = std::size_t{record.name_size} + record.link_size;
  const std::size_t before_attributes = before_end + record.end_path_size;
  const std::size_t size = before_attributes + record.attributes_size;
  if (bytes.size() < size) return {};
  out = {.path = std::string(bytes.substr(0, record.name_size)),
         .kind = static_cast<FileKind>(record.kind),
         .mode = record.mode,
         .uid = record.uid,
         .gid = record.gid,
         .size = record.size,
         .inode = record.inode,
         .modified_ns = record.modified_ns,
         .link_target = std::string(bytes.substr(record.name_size, record.link_size))};
  if (record.has_end == 1)
    out.link_end = LinkEnd{.path = std::string(bytes.substr(before_end, record.end_path_size)),
                           .kind = static_cast<FileKind>(record.end_kind),
                           .mode = record.end_mode,
                           .size = record.end_size};
  if (out.path.find('\0') != std::string::npos ||
      !take_attributes(bytes.substr(before_attributes, record.attributes_size), out.attributes))
    return {.state = State::kRefused};
  return {.state = State::kRecord, .consumed = before - bytes.size() + size};
}

RecordParse parse_watch_record(std::string_view bytes, FileChange& out) {
  using State = RecordParse::State;
  cell::WatchRecord record;
  if (!take(bytes, record)) return {};
  if (record.magic != cell::kWatchRecordMagic || record.change < cell::Change::kCreate ||
      record.change > cell::Change::kMode || record.name_size > kPathBytesMax)
    return {.state = State::kRefused};
  if (bytes.size() < record.name_size) return {};
  out.kind = static_cast<FileChange::Kind>(static_cast<std::uint32_t>(record.change) - 1);
  out.path = bytes.substr(0, record.name_size);
  if (out.path.find('\0') != std::string::npos) return {.state = State::kRefused};
  return {.state = State::kRecord, .consumed = sizeof record + record.name_size};
}

}  // namespace pons::sandbox
