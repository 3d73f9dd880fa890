#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/linux/loop.h"
#include "pons/telemetry/page.h"
#include "pons/telemetry/span.h"

namespace pons::gateway {

// Brings spans to a collector: in batches, again when it is busy or away, and never in anybody's
// way. What there is no room for, and what the collector does not want, is dropped and counted.
class SpanExport {
 public:
  struct Reply {
    int status = 0;
    std::optional<Duration> retry_after = std::nullopt;
    std::string body = {};
  };
  // One request to the collector, with a deadline of its own.
  using Send = std::function<Task<Result<Reply>>(std::string body)>;

  SpanExport(linux::Loop& loop, Send send);

  void add(std::vector<telemetry::Span> spans);
  Task<> run();  // never ends
  // Sends what is there without waiting for more, and returns when it is gone or time is up.
  Task<> flush(TimePoint deadline);

  void write_metrics(telemetry::Page& page) const;

  static constexpr std::size_t kWaitingMax = 8'192;
  static constexpr std::size_t kBatchMax = 512;
  static constexpr int kTriesMax = 6;

 private:
  enum class Verdict : std::uint8_t { kTaken, kAgain, kRefused };
  Task<> send_batch(std::vector<telemetry::Span> batch);
  Verdict judge(const Result<Reply>& reply, std::size_t spans);

  linux::Loop& loop_;
  Send send_;
  std::deque<telemetry::Span> waiting_;
  bool closing_ = false;
  linux::Event more_;
  linux::Event hurry_;
  linux::Event empty_;
  telemetry::Counter sent_;
  telemetry::Counter no_room_;
  telemetry::Counter refused_;
  telemetry::Counter unreachable_;
  telemetry::Counter failures_;  // of requests
};

}  // namespace pons::gateway
