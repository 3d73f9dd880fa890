#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "pons/telemetry/page.h"

namespace pons::http {

// What a server has done since it began.
class ServerCounts {
 public:
  // A request was answered. `route` is static text; there are only so many of them.
  void count_request(std::string_view route, int status);

  std::uint64_t connections = 0;     // opened
  std::uint64_t received_bytes = 0;  // of HTTP, inside TLS
  std::uint64_t sent_bytes = 0;
  std::uint64_t streams = 0;  // answers under way, of those that come piece by piece

 private:
  friend void write_counts(telemetry::Page& page, std::string_view listener,
                           const ServerCounts& counts, std::size_t open);
  struct Requests {
    std::string_view route;
    std::array<std::uint64_t, 5> by_class{};  // of status: 1xx to 5xx
  };
  static constexpr std::size_t kRoutesMax = 128;
  std::vector<Requests> requests_{{.route = "other"}};  // those of routes that are too many
  std::size_t last_ = 0;                                // where the request before was counted
};

// `open`: connections at this moment.
void write_counts(telemetry::Page& page, std::string_view listener, const ServerCounts& counts,
                  std::size_t open);

}  // namespace pons::http
