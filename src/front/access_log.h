#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/clock.h"

namespace pons::front {

// One request of the public door, as far as it may be told.
struct LoggedRequest {
  std::string id;
  std::string key;   // its id, or "-"
  std::string from;  // numeric address
  std::string method;
  std::string path;  // words of the API only
  int status = 0;    // 0: nobody waited for an answer
  std::uint64_t bytes = 0;
  bool cut = false;
  Duration took{};
};

// Lines about requests, at level info: all, or those that failed. Not bound to the limit of other
// places that log; what is over its own, which the supervisor's reader keeps up with, is counted.
class AccessLog {
 public:
  // `which`: "none", "failed", "all". `clock`: milliseconds since 1970.
  explicit AccessLog(std::string_view which, std::int64_t (*clock)() = wall_clock_ms);

  void write(const LoggedRequest& request);
  // What was no request at all. `reason` holds nothing that a client sent.
  void write_refusal(int status, std::string_view reason);

  static constexpr std::uint32_t kLinesPerSecond = 1'000;
  static std::int64_t wall_clock_ms();

 private:
  enum class Which : std::uint8_t { kNone, kFailed, kAll };
  bool has_room(std::int64_t second);

  Which which_;
  std::int64_t (*clock_)();
  std::int64_t second_ = 0;
  std::uint32_t lines_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace pons::front
