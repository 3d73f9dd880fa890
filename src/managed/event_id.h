#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "pons/session/event.h"

namespace pons::managed {

// One event of a session's log may be several of the API's. What they are called is known as soon
// as the one that they come of is, so that an answer has its id while it is still being given.
enum class Part : std::uint8_t {
  kItself,
  kSpanEnd,
  kMessage,
  kThinking,
  kStatus,
  kError,
  kUsage,
  kThreadStatus,
  kThreadMessage,
  kThreadEnd,
};

struct EventId {
  session::Seq seq = 0;
  Part part = Part::kItself;
  auto operator<=>(const EventId&) const = default;
};

// "sevt_…": says which session's it is, too.
std::string write_event_id(std::string_view session, EventId id);
// Nothing when it is none of this session's.
std::optional<EventId> parse_event_id(std::string_view session, std::string_view text);

}  // namespace pons::managed
