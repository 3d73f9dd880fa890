#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "pons/base/result.h"

namespace pons {

class Secret;

// kInfo is rare: start, stop, and what an operator would want on a quiet day. kWarn asks for
// attention, kError says that a promise was not kept. kDebug may be many.
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };
enum class LogFormat : std::uint8_t { kHuman, kJson };

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  template <std::integral I>
  LogField(std::string_view k, I v) : key(k), value(static_cast<std::int64_t>(v)) {}
  LogField(std::string_view k, const Error& error) : key(k), value(error.describe()) {}
  LogField(std::string_view k, const Secret&) = delete;  // a secret is never logged

  std::string_view key;
  std::variant<std::string, std::int64_t, double, bool> value;
};

// Each place that logs may write this many lines a second; what is over is counted and reported by
// the next line.
inline constexpr std::uint32_t kLogLinesPerSecondPerSite = 20;

struct LogSite {
  std::atomic<std::int64_t> second{0};
  std::atomic<std::uint32_t> lines{0};
  std::atomic<std::uint32_t> suppressed{0};
};

struct LogSettings {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kHuman;
  std::string process;  // stands in every line
  int descriptor = 2;
  bool color = false;
};

// Called once, early. Human on a terminal, JSON otherwise, unless told.
void configure_log(LogSettings settings);
LogSettings default_log_settings(int descriptor = 2);
const LogSettings& log_settings();

bool log_enabled(LogLevel level);
void log_line(LogSite& site, LogLevel level, std::string_view message,
              std::initializer_list<LogField> fields);

// Writes a line that another process of ours has formatted already.
void relay_log_line(std::string_view line);

// One line as it would be written, newline included. Control characters never reach the output raw.
std::string format_log_line(const LogSettings& settings, std::int64_t wall_ms, LogLevel level,
                            std::string_view message, std::initializer_list<LogField> fields);

}  // namespace pons

// LOG_INFO("role started", {"pid", pid}, {"role", name});
#define LOG_AT_(level, message, ...)                              \
  do {                                                            \
    if (::pons::log_enabled(level)) {                             \
      static ::pons::LogSite log_site_;                           \
      ::pons::log_line(log_site_, level, message, {__VA_ARGS__}); \
    }                                                             \
  } while (false)
#define LOG_DEBUG(...) LOG_AT_(::pons::LogLevel::kDebug, __VA_ARGS__)
#define LOG_INFO(...) LOG_AT_(::pons::LogLevel::kInfo, __VA_ARGS__)
#define LOG_WARN(...) LOG_AT_(::pons::LogLevel::kWarn, __VA_ARGS__)
#define LOG_ERROR(...) LOG_AT_(::pons::LogLevel::kError, __VA_ARGS__)
