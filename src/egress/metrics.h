#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "pons/audit/decision.h"
#include "pons/telemetry/page.h"

namespace pons::egress {

// How often what was decided since the process began, for programs that watch it. Its labels are
// words of ours: no host, sandbox or credential is ever among them.
class Metrics {
 public:
  void count(const audit::Decision& decision);

  // What is not a count of decisions, as it is now.
  struct State {
    std::uint64_t sandboxes = 0;
    std::uint64_t connections = 0;
    std::uint64_t access_requests = 0;  // pending
    std::uint64_t credentials = 0;
    std::uint64_t credentials_damaged = 0;
    std::uint64_t audit_written = 0;
    std::uint64_t audit_suppressed = 0;
    std::uint64_t audit_lost = 0;
  };
  void write(telemetry::Page& page, const State& state) const;

 private:
  using Key = std::pair<audit::Verdict, std::string>;  // and code
  std::map<Key, std::uint64_t> decisions_;
  std::uint64_t spliced_tls_ = 0;
  std::uint64_t spliced_tcp_ = 0;
  std::uint64_t bytes_in_ = 0;
  std::uint64_t bytes_out_ = 0;
};

}  // namespace pons::egress
