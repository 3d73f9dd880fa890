#include "pons/audit/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lines.h"
#include "underway_notes.h"

namespace pons::audit {

namespace {

constexpr std::size_t kBufferFlushBytes = 64 * 1024;
constexpr std::size_t kBufferBytesMax = 1024 * 1024;  // while the disk takes nothing
constexpr std::size_t kAllowancesMax = 64 * 1024;
constexpr std::size_t kIdBytesMax = 128;
constexpr std::size_t kHostBytesMax = 255;
constexpr std::size_t kPathBytesMax = 512;
constexpr std::size_t kListedMax = 16;
constexpr std::size_t kLineFrameBytes = 256;  // number, time, kind and hashes, at most
constexpr std::string_view kManySandboxes = "(many)";
constexpr std::string_view kRequestId = R"("request_id":")";

std::string field(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : fmt::format(R"(,"{}":"{}")", name, value);
}

std::string field(std::string_view name, std::uint64_t value) {
  return value == 0 ? std::string() : fmt::format(R"(,"{}":{})", name, value);
}

}  // namespace

bool AuditLog::Allowance::any_suppressed() const {
  return std::ranges::any_of(suppressed, [](std::uint64_t count) { return count > 0; });
}

AuditLog::AuditLog(std::string directory, const Clock& clock, AuditOptions options)
    : directory_(std::move(directory)),
      clock_(clock),
      options_(std::move(options)),
      head_{.seq = 0, .hash = std::string(kFirstPrevious)} {}

AuditLog::~AuditLog() {
  for (auto& [sandbox, allowance] : allowances_)
    if (allowance.any_suppressed()) (void)record_suppressed(sandbox, allowance);
  (void)flush();
  if (file_) (void)fdatasync(file_.get());
}

Result<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& directory, const Clock& clock,
                                                 AuditOptions options) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("create audit directory", directory);
  std::unique_ptr<AuditLog> log(new AuditLog(directory, clock, std::move(options)));
  TRY_VOID(log->resume());
  return log;
}

Result<void> AuditLog::resume() {
  files_ = TRY(list_files(directory_));
  TRY_VOID(open_file(files_.empty() ? 1 : files_.rbegin()->first));
  const std::size_t torn = TRY(cut_torn_line());
  // From the newest: a file may have been begun and got no line.
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    const std::string text = TRY(read_log_file(directory_, file->first));
    if (text.find('\n') == std::string::npos) continue;
    const auto last = parse_link(last_line(text));
    if (!last || !last->hash_is_right)
      return make_error(ErrorCode::kDenied, "open audit log",
                        fmt::format("the last line of {}/{} is not what was written; see `pons "
                                    "audit verify`, and move the directory away to begin anew",
                                    directory_, file_name(file->first)));
    head_ = {.seq = last->seq, .hash = last->hash};
    break;
  }
  if (torn > 0) TRY_VOID(write_event("repaired", field("bytes", torn)));
  TRY_VOID(write_buffer());
  return record_left_underway();
}

// A process that was killed may have written a decision and not yet erased its note.
Result<std::string> AuditLog::read_recent() const {
  std::string text;
  for (auto file = files_.rbegin(); file != files_.rend() && text.empty(); ++file) {
    text = TRY(read_log_file(directory_, file->first));
    if (const auto before = std::next(file); before != files_.rend())
      text += TRY(read_log_file(directory_, before->first));
  }
  return text;
}

Result<void> AuditLog::record_left_underway() {
  notes_ = std::make_unique<UnderwayNotes>(TRY(UnderwayNotes::open(directory_)));
  if (!notes_->left().empty()) {
    const std::string recent = TRY(read_recent());
    for (const std::string& note : notes_->left()) {
      const std::size_t id = note.rfind(kRequestId);
      if (id != std::string::npos && recent.contains(std::string_view(note).substr(id))) continue;
      if (!write_event("decision", note)) ++lost_unrecorded_;
    }
    TRY_VOID(write_buffer());
  }
  return notes_->clear();
}

AuditLog::Underway AuditLog::begin(Decision decision) {
  decision.verdict = Verdict::kCut;
  decision.code = "egress_ended";
  std::string note = fields_of(decision);
  if (note.size() >= UnderwayNotes::kPlaceBytes) {
    decision.credentials.clear();
    decision.aliases.clear();
    note = fields_of(decision);
  }
  auto place = notes_->write(note);
  if (!place && write_buffer()) place = notes_->write(note);  // what has ended gave up its place
  if (place) return Underway({.log = this, .number = *place});
  if (!write_event("begun", note) || !write_buffer()) ++lost_unrecorded_;
  return {};
}

Result<std::size_t> AuditLog::cut_torn_line() {
  auto& [number, size] = *files_.rbegin();
  const std::string text = TRY(read_log_file(directory_, number));
  const std::size_t whole = text.rfind('\n') + 1;  // 0 when there is none
  if (whole < text.size() && ftruncate(file_.get(), static_cast<off_t>(whole)) != 0)
    return os_error("repair audit log", file_name(number));
  size = whole;
  return text.size() - whole;
}

Result<void> AuditLog::open_file(std::uint64_t number) {
  const std::string path = fmt::format("{}/{}", directory_, file_name(number));
  const bool is_new = !files_.contains(number);
  auto file = TRY(linux::open_file(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0600));
  if (is_new) TRY_VOID(linux::sync_directory(directory_));
  if (file_) (void)fdatasync(file_.get());
  file_ = std::move(file);
  if (is_new) files_[number] = 0;
  return {};
}

std::string AuditLog::cleaned(const std::string& text, std::size_t bytes_max) const {
  if (text.empty()) return {};
  std::string copy = text;
  if (options_.redact) options_.redact(copy);
  return plain_text(copy, bytes_max);
}

std::string AuditLog::fields_of(const Decision& decision) const {
  const auto list = [this](const char* name, const std::vector<std::string>& texts,
                           std::size_t bytes_max) {
    std::string all;
    for (const std::string& text : texts) {
      if (all.size() > kListedMax * bytes_max) break;
      all += fmt::format("{}\"{}\"", all.empty() ? "" : ",", cleaned(text, bytes_max));
    }
    return all.empty() ? all : fmt::format(R"(,"{}":[{}])", name, all);
  };
  const std::string path = decision.path.substr(0, decision.path.find_first_of("?#"));
  return field("verdict", to_string(decision.verdict)) +
         field("code", plain_text(decision.code, kIdBytesMax)) +
         field("sandbox", plain_text(decision.sandbox, kIdBytesMax)) +
         field("session", plain_text(decision.session, kIdBytesMax)) +
         field("rule", plain_text(decision.rule, kHostBytesMax)) +
         field("protocol", plain_text(decision.protocol, kIdBytesMax)) +
         field("method", cleaned(decision.method, 32)) +
         field("host", cleaned(decision.host, kHostBytesMax)) + field("port", decision.port) +
         list("aliases", decision.aliases, kHostBytesMax) +
         field("path", cleaned(path, kPathBytesMax)) +
         list("credentials", decision.credentials, kIdBytesMax) +
         field("bytes_in", decision.bytes_in) + field("bytes_out", decision.bytes_out) +
         field("request_id", plain_text(decision.request_id, kIdBytesMax));
}

void AuditLog::refill(Allowance& allowance) const {
  const double seconds = std::chrono::duration<double>(clock_.now() - allowance.filled).count();
  allowance.filled = clock_.now();
  allowance.tokens = std::min<double>(options_.events_at_once,
                                      allowance.tokens + seconds * options_.events_per_second);
}

std::map<std::string, AuditLog::Allowance>::iterator AuditLog::allowance_of(
    const std::string& sandbox) {
  // Sandboxes without end share one allowance rather than the memory of the process.
  const bool fits = allowances_.contains(sandbox) || allowances_.size() < kAllowancesMax;
  const auto [known, is_new] =
      allowances_.try_emplace(fits ? sandbox : std::string(kManySandboxes));
  if (is_new) {
    known->second.tokens = static_cast<double>(options_.events_at_once);
    known->second.filled = clock_.now();
  }
  return known;
}

Result<void> AuditLog::append(const Decision& decision) {
  const auto known = allowance_of(decision.sandbox);
  Allowance& allowance = known->second;
  refill(allowance);
  // Room for the count as well: it comes before the event that follows the gap.
  if (allowance.tokens < (allowance.any_suppressed() ? 2 : 1)) {
    ++allowance.suppressed[static_cast<std::size_t>(decision.verdict)];
    ++counts_.suppressed;
    return {};
  }
  if (allowance.any_suppressed()) (void)record_suppressed(known->first, allowance);
  (void)record_lost();
  allowance.tokens -= 1;
  auto written = write_event("decision", fields_of(decision));
  if (!written) {
    ++counts_.lost;
    ++lost_unrecorded_;
  }
  return written;
}

Result<void> AuditLog::append(const AccessEvent& event) {
  return write_event("access_request",
                     field("status", plain_text(event.status, kIdBytesMax)) +
                         field("sandbox", plain_text(event.sandbox, kIdBytesMax)) +
                         field("host", cleaned(event.host, kHostBytesMax)) +
                         field("port", event.port) +
                         field("request_id", plain_text(event.request_id, kIdBytesMax)));
}

Result<void> AuditLog::record_suppressed(const std::string& sandbox, Allowance& allowance) {
  std::string by_verdict;
  for (std::size_t i = 0; i < kVerdicts; ++i)
    if (allowance.suppressed[i] > 0)
      by_verdict += fmt::format("{}\"{}\":{}", by_verdict.empty() ? "" : ",",
                                to_string(static_cast<Verdict>(i)), allowance.suppressed[i]);
  const std::uint64_t total =
      std::accumulate(allowance.suppressed.begin(), allowance.suppressed.end(), std::uint64_t{0});
  TRY_VOID(write_event("suppressed", field("sandbox", plain_text(sandbox, kIdBytesMax)) +
                                         field("suppressed", total) +
                                         fmt::format(R"(,"by_verdict":{{{}}})", by_verdict)));
  allowance.suppressed = {};
  allowance.tokens = std::max(0.0, allowance.tokens - 1);
  return {};
}

Result<void> AuditLog::record_lost() {
  if (lost_unrecorded_ == 0) return {};
  TRY_VOID(write_event("lost", field("lost", lost_unrecorded_)));
  lost_unrecorded_ = 0;
  return {};
}

Result<void> AuditLog::write_event(std::string_view kind, std::string_view fields) {
  // Those that tell what happened to the log itself are few and have no quota.
  const bool has_quota = kind == "decision" || kind == "begun" || kind == "access_request" ||
                         kind == "suppressed" || kind == "lost";
  if (has_quota) TRY_VOID(make_room(fields.size() + kLineFrameBytes));
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.wall().time_since_epoch());
  const std::string line = make_line(head_.seq + 1, time.count(), kind, fields, head_.hash) + "\n";
  if (buffer_.size() + line.size() > kBufferBytesMax)
    return make_error(ErrorCode::kLimit, "write audit log", "the disk does not take it");
  constexpr std::size_t kBehindHash = 3;  // "}\n
  head_ = {.seq = head_.seq + 1,
           .hash = line.substr(line.size() - kBehindHash - kFirstPrevious.size(),
                               kFirstPrevious.size())};
  buffer_ += line;
  ++counts_.written;
  if (buffer_.size() >= kBufferFlushBytes) (void)write_buffer();  // what stays is tried again
  return {};
}

Result<void> AuditLog::make_room(std::size_t bytes) {
  const auto is_full = [&] {
    const std::uint64_t total =
        std::accumulate(files_.begin(), files_.end(), std::uint64_t{buffer_.size()},
                        [](std::uint64_t sum, const auto& file) { return sum + file.second; });
    return total + bytes > options_.total_bytes_max;
  };
  while (is_full()) {
    // Only what is on disk, in a file that is not the last, can be removed.
    if (files_.size() < 2) (void)write_buffer();
    if (options_.retention == Retention::kKeepEverything || files_.size() < 2) {
      if (!std::exchange(full_, true)) TRY_VOID(write_event("full", ""));
      return make_error(ErrorCode::kLimit, "write audit log",
                        "its quota is used up; move old files away");
    }
    TRY_VOID(remove_oldest());
  }
  full_ = false;
  return {};
}

Result<void> AuditLog::remove_oldest() {
  const std::uint64_t number = files_.begin()->first;
  const std::string text = TRY(read_log_file(directory_, number));
  const auto last = parse_link(last_line(text));
  if (unlink(fmt::format("{}/{}", directory_, file_name(number)).c_str()) != 0 && errno != ENOENT)
    return os_error("remove audit file", file_name(number));
  files_.erase(number);
  return write_event("removed", field("file", file_name(number)) +
                                    field("last_seq", last ? last->seq : 0) +
                                    field("last_hash", last ? last->hash : ""));
}

Result<void> AuditLog::flush() {
  for (auto known = allowances_.begin(); known != allowances_.end();) {
    auto& [sandbox, allowance] = *known;
    refill(allowance);
    // Quiet again: what was counted is said now, not at the sandbox's next word.
    if (allowance.any_suppressed() && allowance.tokens >= 1)
      (void)record_suppressed(sandbox, allowance);
    const bool is_idle = !allowance.any_suppressed() && allowance.tokens >= options_.events_at_once;
    known = is_idle ? allowances_.erase(known) : std::next(known);
  }
  (void)record_lost();
  return write_buffer();
}

Result<void> AuditLog::write_buffer() {
  while (!buffer_.empty()) {
    // At least one line a file, however small its limit.
    std::uint64_t& size = files_.rbegin()->second;
    std::size_t piece = buffer_.find('\n') + 1;
    for (std::size_t next = piece; next > 0 && size + next <= options_.file_bytes_max;
         next = buffer_.find('\n', piece) + 1)
      piece = next;
    if (size > 0 && size + piece > options_.file_bytes_max) {
      TRY_VOID(open_file(files_.rbegin()->first + 1));
      continue;
    }
    auto written = linux::write_all(file_.get(), std::string_view(buffer_).substr(0, piece));
    if (!written) {
      // Half a line would make the next one unreadable.
      (void)ftruncate(file_.get(), static_cast<off_t>(size));
      return written;
    }
    size += piece;
    buffer_.erase(0, piece);
  }
  for (const std::uint32_t place : std::exchange(ended_, {})) notes_->erase(place);
  return {};
}

}  // namespace pons::audit
