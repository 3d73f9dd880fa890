#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/models/answer.h"
#include "relay.h"

namespace pons::gateway {

// One thing that a scripted provider says, and when.
struct ScriptedAnswer {
  // All that are given must hold.
  struct When {
    std::string user;         // stands in the last message of the user
    std::string system;       // stands in a system message
    std::string tool_result;  // stands in the last tool result
    std::string model;
    std::optional<std::uint64_t> turn;  // so many answers are in the conversation already
  } when;

  // "{user}" in its text and arguments becomes the last message of the user, "{tool_result}" the
  // last tool result.
  models::Answer answer;
  bool has_usage = false;
  Duration delay{};             // before the first event
  std::size_t chunk_bytes = 0;  // 0: each part in one piece
  Duration chunk_delay{};       // before every further piece
  std::optional<models::Failure> failure = std::nullopt;
  std::size_t failure_after = 0;  // pieces
  enum class End : std::uint8_t { kWhole, kBreak, kHang } end = End::kWhole;
};

// A provider that answers from a list: the first entry whose conditions hold. It needs no network
// and no key, and says the same each time.
class Script {
 public:
  // {"answers": […]}; an error names the place.
  static Result<Script> parse(std::string_view json);
  // Null when none fits.
  const ScriptedAnswer* find(const models::Request& request, std::string_view model) const;

 private:
  std::vector<ScriptedAnswer> answers_;
};

Task<Outcome> play_script(linux::Loop& loop, const Script& script, std::string_view model,
                          ModelRequest& request, ClientSide& client, const ProgressSink& progress);

}  // namespace pons::gateway
