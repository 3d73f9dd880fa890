#pragma once

#include <vector>

#include "pons/managed/fields.h"
#include "pons/session/event.h"

namespace pons::managed {

enum class Inputs : std::uint8_t { kAny, kInitial };

// One event of {"events": […]} as the session takes it. Ids of calls must be of this session.
Result<session::Event> read_input(const JsonPlace& place, std::string_view session, Inputs which);
// Up to 50.
Result<std::vector<session::Event>> read_inputs(const JsonPlace& place, const char* key,
                                                std::string_view session, Inputs which);

}  // namespace pons::managed
