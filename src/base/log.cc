#include "pons/base/log.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons {

namespace {

LogSettings& settings_storage() {
  static LogSettings settings = default_log_settings();
  return settings;
}

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error"};

// Text that came from outside must not be able to start a new line, move the cursor or end a JSON
// string.
void append_json_string(std::string& out, std::string_view text) {
  const bool utf8 = is_valid_utf8(text);
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !utf8)) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_plain_word(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text)
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) >= 0x7F)
      return false;
  return true;
}

void append_value(std::string& out, const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    if (format == LogFormat::kHuman && is_plain_word(*text)) {
      out += *text;
    } else {
      append_json_string(out, *text);
    }
  } else if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += fmt::format("{}", *number);
  } else if (const auto* real = std::get_if<double>(&field.value)) {
    out += fmt::format("{:.6g}", *real);
  } else {
    out += std::get<bool>(field.value) ? "true" : "false";
  }
}

std::string utc_time(std::int64_t wall_ms, const char* pattern) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, pattern, &parts);
  return fmt::format("{}.{:03}", std::string_view(text, size), wall_ms % 1000);
}

// A reader of our log that stops reading must not stop us, whether the descriptor blocks or not:
// after POLLOUT a pipe takes PIPE_BUF bytes without blocking. Once a wait was in vain, lines are
// dropped without waiting until the reader is back.
void write_line(int descriptor, std::string_view line) {
  constexpr int kWaitMs = 50;
  static std::atomic<bool> reader_is_stuck{false};
  while (!line.empty()) {
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    const int count = poll(&ready, 1, reader_is_stuck ? 0 : kWaitMs);
    if (count < 0 && errno == EINTR) continue;
    reader_is_stuck = count <= 0;
    if (count <= 0) return;
    const ssize_t wrote =
        write(descriptor, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
    if (wrote < 0 && errno != EINTR && errno != EAGAIN) return;
    if (wrote > 0) line.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

}  // namespace

LogSettings default_log_settings(int descriptor) {
  const bool terminal = isatty(descriptor) == 1;
  return LogSettings{.format = terminal ? LogFormat::kHuman : LogFormat::kJson,
                     .descriptor = descriptor,
                     .color = terminal && getenv("NO_COLOR") == nullptr};
}

void configure_log(LogSettings settings) {
  settings_storage() = std::move(settings);
}

const LogSettings& log_settings() {
  return settings_storage();
}

bool log_enabled(LogLevel level) {
  return level >= settings_storage().level;
}

std::string format_log_line(const LogSettings& settings, std::int64_t wall_ms, LogLevel level,
                            std::string_view message, std::initializer_list<LogField> fields) {
  const auto level_index = static_cast<std::size_t>(level);
  std::string out;
  if (settings.format == LogFormat::kJson) {
    out = fmt::format(R"({{"time":"{}Z","level":"{}")", utc_time(wall_ms, "%Y-%m-%dT%H:%M:%S"),
                      kLevelNames[level_index]);
    if (!settings.process.empty()) out += fmt::format(R"(,"process":"{}")", settings.process);
    out += R"(,"msg":)";
    append_json_string(out, message);
    for (const LogField& field : fields) {
      out += ',';
      append_json_string(out, field.key);
      out += ':';
      append_value(out, field, settings.format);
    }
    out += "}\n";
    return out;
  }
  static constexpr std::string_view kColors[] = {"\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
  const std::string_view color = settings.color ? kColors[level_index] : std::string_view();
  const std::string_view plain = settings.color ? std::string_view("\x1b[0m") : std::string_view();
  out = fmt::format("{} {}{:5}{} {:10} ", utc_time(wall_ms, "%H:%M:%S"), color,
                    kLevelNames[level_index], plain,
                    settings.process.empty() ? "pons" : settings.process);
  for (const char c : message) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  for (const LogField& field : fields) {
    out += ' ';
    out += field.key;
    out += '=';
    append_value(out, field, settings.format);
  }
  out += '\n';
  return out;
}

void relay_log_line(std::string_view line) {
  write_line(settings_storage().descriptor, fmt::format("{}\n", line));
}

void log_line(LogSite& site, LogLevel level, std::string_view message,
              std::initializer_list<LogField> fields) {
  const std::int64_t wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  const std::int64_t second = wall_ms / 1000;
  if (site.second.exchange(second, std::memory_order_relaxed) != second)
    site.lines.store(0, std::memory_order_relaxed);
  if (site.lines.fetch_add(1, std::memory_order_relaxed) >= kLogLinesPerSecondPerSite) {
    site.suppressed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const LogSettings& settings = settings_storage();
  if (const auto suppressed = site.suppressed.exchange(0, std::memory_order_relaxed))
    write_line(settings.descriptor,
               format_log_line(settings, wall_ms, level, "lines like the next one were left out",
                               {{"count", suppressed}}));
  write_line(settings.descriptor, format_log_line(settings, wall_ms, level, message, fields));
}

}  // namespace pons
