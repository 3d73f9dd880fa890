#include "pons/telemetry/trace_parent.h"

#include <algorithm>

namespace pons::telemetry {

namespace {

// VERSION-TRACE-SPAN-FLAGS: where each begins, and how long all are.
constexpr std::size_t kVersionDigits = 2;
constexpr std::size_t kTraceAt = 3;
constexpr std::size_t kTraceDigits = 32;
constexpr std::size_t kSpanAt = 36;
constexpr std::size_t kSpanDigits = 16;
constexpr std::size_t kFlagsAt = 53;
constexpr std::size_t kFlagsDigits = 2;
constexpr std::size_t kBytes = 55;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// All zeros stand for no id.
bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceParent> read_trace_parent(std::string_view text) {
  if (text.size() < kBytes) return std::nullopt;
  const std::string_view version = text.substr(0, kVersionDigits);
  if (!is_hex(version) || version == "ff") return std::nullopt;
  // Later versions may have more to say behind it.
  if (text.size() > kBytes && (version == "00" || text[kBytes] != '-')) return std::nullopt;
  for (const std::size_t dash : {kTraceAt - 1, kSpanAt - 1, kFlagsAt - 1})
    if (text[dash] != '-') return std::nullopt;
  const std::string_view trace = text.substr(kTraceAt, kTraceDigits);
  const std::string_view span = text.substr(kSpanAt, kSpanDigits);
  if (!is_id(trace) || !is_id(span) || !is_hex(text.substr(kFlagsAt, kFlagsDigits)))
    return std::nullopt;
  return TraceParent{.trace_id = std::string(trace), .span_id = std::string(span)};
}

}  // namespace pons::telemetry
