#include "call_span.h"

#include <algorithm>
#include <chrono>

#include "pons/base/id.h"
#include "pons/base/text.h"
#include "pons/telemetry/trace_parent.h"
#include "refusals.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kTraceBytes = 16;
constexpr std::size_t kSpanBytes = 8;

std::string random_hex(std::size_t bytes) {
  std::string random(bytes, '\0');
  random_bytes(random.data(), random.size());
  return to_hex(random);
}

}  // namespace

std::string_view error_type(models::Failing failing) {
  using enum models::Failing;
  switch (failing) {
    case kInvalidRequest:
      return "invalid_request";
    case kAuthentication:
      return "authentication";
    case kPermission:
      return "permission";
    case kNotFound:
      return "not_found";
    case kTooLarge:
      return "too_large";
    case kContextLength:
      return "context_length";
    case kRateLimit:
      return "rate_limit";
    case kBudget:
      return "budget";
    case kOverloaded:
      return "overloaded";
    case kTimeout:
      return "timeout";
    case kUpstream:
      break;
  }
  return "upstream";
}

std::unique_ptr<CallSpan> CallSpan::begin(const http::RequestHead& head, std::string key) {
  const auto field = head.find("traceparent");
  const auto parent = field ? telemetry::read_trace_parent(*field) : std::nullopt;
  return std::make_unique<CallSpan>(
      CallSpan{.trace_id = parent ? parent->trace_id : random_hex(kTraceBytes),
               .span_id = random_hex(kSpanBytes),
               .parent_id = parent ? parent->span_id : std::string(),
               .key = std::move(key),
               .begun_ms = wall_ms()});
}

void CallSpan::add(const models::Usage& more) {
  usage.input += more.input;
  usage.cache_read += more.cache_read;
  usage.cache_write += more.cache_write;
  usage.cache_write_hour += more.cache_write_hour;
  usage.output += more.output;
}

telemetry::Span CallSpan::end(std::int64_t cost_nano) const {
  telemetry::Span span{.trace_id = trace_id,
                       .span_id = span_id,
                       .parent_id = parent_id,
                       .name = asked.empty() ? "chat" : "chat " + asked,
                       .kind = telemetry::Span::Kind::kClient,
                       .begun_ms = begun_ms,
                       .ended_ms = std::max(begun_ms, wall_ms()),
                       .attributes = {{"gen_ai.operation.name", "chat"}, {"pons.key.id", key}},
                       .failed = !error.empty()};
  const auto note = [&](const char* name, telemetry::Span::Value value) {
    span.attributes.emplace_back(name, std::move(value));
  };
  if (!asked.empty()) note("gen_ai.request.model", asked);
  if (!provider.empty()) {
    note("gen_ai.provider.name", provider);
    note("gen_ai.response.model", model);
    note("gen_ai.usage.input_tokens", usage.prompt());
    note("gen_ai.usage.output_tokens", usage.output);
    note("gen_ai.usage.cache_read.input_tokens", usage.cache_read);
    note("gen_ai.usage.cache_creation.input_tokens", usage.cache_write + usage.cache_write_hour);
    note("pons.usage.cost_nano_usd", cost_nano);
  }
  if (first_chunk)
    note("gen_ai.response.time_to_first_chunk",
         std::chrono::duration<double>(*first_chunk).count());
  if (tries > 1) note("pons.tries", tries);
  if (span.failed) note("error.type", error);
  return span;
}

}  // namespace pons::gateway
