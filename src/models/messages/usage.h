#pragma once

#include <optional>
#include <string_view>

#include "json_node.h"
#include "json_writer.h"
#include "pons/models/answer.h"

namespace pons::models::messages {

// The counts of an answer as its events bring them. They are cumulative, so none ever falls; a
// field that is absent or no number says nothing.
class UsageCount {
 public:
  void see(const JsonNode& usage);
  Usage usage() const;

 private:
  std::int64_t input_ = 0;
  std::int64_t output_ = 0;
  std::int64_t cache_read_ = 0;
  std::int64_t cache_write_ = 0;  // for whichever time
  std::int64_t cache_write_hour_ = 0;
  std::optional<std::int64_t> thinking_;
  std::int64_t searches_ = 0;
};

void write_usage(JsonWriter& json, const Usage& usage);

// Unknown words count as the end of the turn.
Stop stop_of(std::string_view reason);
std::string_view reason_of(Stop stop);

}  // namespace pons::models::messages
