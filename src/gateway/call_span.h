#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
#include "pons/http/exchange.h"
#include "pons/models/answer.h"
#include "pons/telemetry/span.h"

namespace pons::gateway {

// What a span of one call of a client is made of: who asked whom, when, and what it came to. Never
// what was said, and no name that a client made up.
struct CallSpan {
  std::string trace_id;
  std::string span_id;
  std::string parent_id;  // what the client says it is a part of; empty: nothing
  std::string key;        // the id of whose call it is
  std::int64_t begun_ms = 0;
  std::string asked = {};     // the model, as clients call it; empty: not known yet
  std::string provider = {};  // of whoever was asked last
  std::string model = {};
  std::int64_t tries = 0;
  models::Usage usage = {};  // as charged, of all tries
  std::optional<Duration> first_chunk = std::nullopt;
  std::string error = {};

  // A part of what the client names in "traceparent", or else a trace of its own.
  static std::unique_ptr<CallSpan> begin(const http::RequestHead& head, std::string key);

  void add(const models::Usage& more);
  telemetry::Span end(std::int64_t cost_nano) const;
};

// The word for it in "error.type".
std::string_view error_type(models::Failing failing);

}  // namespace pons::gateway
