#include "access_log.h"

#include "pons/base/log.h"
#include "pons/base/text.h"

namespace pons::front {

namespace {

constexpr int kFirstFailure = 400;

bool is_for_health(std::string_view path) {
  return path == "/healthz" || path == "/health";
}

void write_line(std::int64_t wall_ms, std::string_view message,
                std::initializer_list<LogField> fields) {
  const std::string line =
      format_log_line(log_settings(), wall_ms, LogLevel::kInfo, message, fields);
  relay_log_line(std::string_view(line).substr(0, line.size() - 1));
}

}  // namespace

std::int64_t AccessLog::wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

AccessLog::AccessLog(std::string_view which, std::int64_t (*clock)())
    : which_(which == "none"     ? Which::kNone
             : which == "failed" ? Which::kFailed
                                 : Which::kAll),
      clock_(clock) {}

bool AccessLog::has_room(std::int64_t second) {
  if (std::exchange(second_, second) != second) lines_ = 0;
  return ++lines_ <= kLinesPerSecond;
}

void AccessLog::write(const LoggedRequest& request) {
  const bool failed = request.status == 0 || request.status >= kFirstFailure || request.cut;
  // Whoever asks every few seconds whether we live is not told about each time.
  const bool wanted = which_ == Which::kAll ? failed || !is_for_health(request.path)
                                            : which_ == Which::kFailed && failed;
  if (!wanted || !log_enabled(LogLevel::kInfo)) return;
  const std::int64_t now = clock_();
  if (!has_room(now / 1000)) {
    ++left_out_;
    return;
  }
  if (const auto count = std::exchange(left_out_, 0); count != 0)
    write_line(now, "lines about requests were left out", {{"count", count}});
  write_line(now, "request",
             {{"id", request.id},
              {"key", request.key},
              {"from", request.from},
              {"method", request.method},
              {"path", request.path},
              {"status", request.status},
              {"bytes", request.bytes},
              {"cut", request.cut},
              {"us", std::chrono::duration_cast<std::chrono::microseconds>(request.took).count()}});
}

void AccessLog::write_refusal(int status, std::string_view reason) {
  if (which_ == Which::kNone) return;
  LOG_INFO("refused what is no request", {"status", status}, {"reason", reason});
}

}  // namespace pons::front
