#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pons::telemetry {

// Of which trace, and of which span in it, something is a part: what a client says in the field
// "traceparent" of W3C Trace Context.
struct TraceParent {
  std::string trace_id;  // 32 hexadecimal digits
  std::string span_id;   // 16 of them
  bool operator==(const TraceParent&) const = default;
};

// Nothing unless the text is exactly such a field. Whether the client keeps its own spans does not
// matter: who collects ours decides about them.
std::optional<TraceParent> read_trace_parent(std::string_view text);

}  // namespace pons::telemetry
