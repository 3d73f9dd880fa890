#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/exchange.h"

namespace pons::e2b {

// The answer of a stream call. Messages are JSON text.
class RpcStream {
 public:
  explicit RpcStream(http::Exchange& exchange);

  Task<Result<void>> send(std::string_view message);
  // Leaves together with the next one, which is sure to come at once.
  void hold(std::string_view message);
  Task<Result<void>> send_held();
  std::size_t held_bytes() const { return held_.size(); }
  // The end, which says that everything was sent, or what went wrong.
  Task<> end();
  Task<> end(Error error);
  // The connection ends without an end: what the SDKs take for a sandbox that died.
  void abort() { exchange_.abort(); }
  bool has_begun() const { return begun_; }

  // As the client asked: when the call is over, and how much silence it stands.
  TimePoint deadline() const { return deadline_; }
  std::optional<Duration> timeout() const { return timeout_; }
  Duration keep_alive() const { return keep_alive_; }

 private:
  Task<Result<void>> write(std::string bytes);
  Task<> write_last(std::string bytes);

  http::Exchange& exchange_;
  std::optional<Duration> timeout_;
  TimePoint deadline_ = kNever;
  Duration keep_alive_;
  bool begun_ = false;
  std::string held_;
};

// `connect-timeout-ms`; nothing when it is absent or senseless.
std::optional<Duration> requested_timeout(const http::RequestHead& head);

}  // namespace pons::e2b
