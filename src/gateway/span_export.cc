#include "span_export.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"
#include "pons/base/log.h"
#include "pons/base/version.h"

namespace pons::gateway {

namespace {

// Spans of one moment leave together.
constexpr Duration kGatherTime = std::chrono::milliseconds(200);
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::minutes(1);

// {"partialSuccess": {"rejectedSpans": "3"}}: the number may be text.
std::size_t rejected_in(std::string_view body) {
  const auto json = parse_json(body, {.depth = 8, .bytes = 64 * 1024});
  if (!json || !json->is_object()) return 0;
  const auto partial = json->find("partialSuccess");
  if (partial == json->end() || !partial->is_object()) return 0;
  const auto count = partial->find("rejectedSpans");
  if (count == partial->end()) return 0;
  if (count->is_number_unsigned()) return count->get<std::size_t>();
  if (!count->is_string()) return 0;
  return static_cast<std::size_t>(
      std::strtoull(count->get_ref<const std::string&>().c_str(), nullptr, 10));
}

}  // namespace

SpanExport::SpanExport(linux::Loop& loop, Send send)
    : loop_(loop), send_(std::move(send)), more_(loop), hurry_(loop), empty_(loop) {
  empty_.set();
}

void SpanExport::add(std::vector<telemetry::Span> spans) {
  const std::size_t room = kWaitingMax - waiting_.size();
  if (spans.size() > room) {
    no_room_.add(spans.size() - room);
    spans.resize(room);
  }
  if (spans.empty()) return;
  std::ranges::move(spans, std::back_inserter(waiting_));
  empty_.reset();
  more_.set();
}

Task<> SpanExport::run() {
  for (;;) {
    co_await more_.wait(kNever);
    if (waiting_.size() < kBatchMax) co_await hurry_.wait(loop_.now() + kGatherTime);
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kBatchMax));
    std::vector<telemetry::Span> batch(std::make_move_iterator(waiting_.begin()),
                                       std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    co_await send_batch(std::move(batch));
    if (!waiting_.empty()) continue;
    more_.reset();
    empty_.set();
  }
}

Task<> SpanExport::send_batch(std::vector<telemetry::Span> batch) {
  const std::string body = telemetry::write_otlp(batch, version());
  Duration pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    const auto reply = co_await send_(body);
    const Verdict verdict = judge(reply, batch.size());
    if (verdict != Verdict::kAgain) co_return;
    failures_.add();
    if (tries == kTriesMax || closing_) break;
    const Duration asked = reply ? reply->retry_after.value_or(pause) : pause;
    co_await hurry_.wait(loop_.now() + std::min(std::max(pause, asked), kLongestPause));
    pause = std::min(2 * pause, kLongestPause);
  }
  unreachable_.add(batch.size());
  LOG_WARN("traces are dropped: the collector cannot be reached", {"spans", batch.size()});
}

SpanExport::Verdict SpanExport::judge(const Result<Reply>& reply, std::size_t spans) {
  if (!reply) return Verdict::kAgain;
  switch (reply->status) {
    case 200: {
      const std::size_t rejected = std::min(rejected_in(reply->body), spans);
      sent_.add(spans - rejected);
      refused_.add(rejected);
      return Verdict::kTaken;
    }
    case 429:
    case 502:
    case 503:
    case 504:
      return Verdict::kAgain;
    default:
      refused_.add(spans);
      failures_.add();
      LOG_WARN("traces are dropped: the collector refuses them", {"status", reply->status},
               {"spans", spans});
      return Verdict::kRefused;
  }
}

Task<> SpanExport::flush(TimePoint deadline) {
  closing_ = true;
  hurry_.set();
  co_await empty_.wait(deadline);
}

void SpanExport::write_metrics(telemetry::Page& page) const {
  using enum telemetry::Page::Type;
  page.begin("pons_trace_spans_total", kCounter,
             "Spans of turns and calls, by what became of them.");
  page.add({{"outcome", "sent"}}, sent_.value());
  page.add({{"outcome", "no_room"}}, no_room_.value());
  page.add({{"outcome", "refused"}}, refused_.value());
  page.add({{"outcome", "unreachable"}}, unreachable_.value());
  page.begin("pons_trace_spans_waiting", kGauge, "Spans that wait for the collector.");
  page.add({}, waiting_.size());
  page.begin("pons_trace_request_failures_total", kCounter, "Requests to the collector in vain.");
  page.add({}, failures_.value());
}

}  // namespace pons::gateway
