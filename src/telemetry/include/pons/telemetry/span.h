#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pons/base/json.h"
#include "pons/base/result.h"

namespace pons::telemetry {

// A piece of work that somebody may want to see: what it was, when, and as a part of what. Never
// what was said in it.
struct Span {
  enum class Kind : std::uint8_t { kInternal = 1, kClient = 3 };  // as OTLP numbers them
  using Value = std::variant<std::string, std::int64_t, double, std::vector<std::string>>;

  std::string trace_id;        // 32 hexadecimal digits
  std::string span_id;         // 16 of them
  std::string parent_id = {};  // empty: it is the whole
  std::string name;
  Kind kind = Kind::kInternal;
  std::int64_t begun_ms = 0;  // since 1970
  std::int64_t ended_ms = 0;
  std::vector<std::pair<std::string, Value>> attributes = {};
  bool failed = false;

  const Value* find(std::string_view attribute) const;
  bool operator==(const Span&) const = default;
};

// The same for the same words, in any process.
std::string trace_id_of(std::string_view words);
std::string span_id_of(std::string_view words);

// From one role to another.
inline constexpr std::size_t kSpansMax = 1'000;  // in one message
Json to_json(const std::vector<Span>& spans);
// Of a role that is not believed: kInvalid says what is wrong.
Result<std::vector<Span>> read_spans(std::string_view text);

// An ExportTraceServiceRequest of OTLP, as JSON.
std::string write_otlp(const std::vector<Span>& spans, std::string_view version);

}  // namespace pons::telemetry
