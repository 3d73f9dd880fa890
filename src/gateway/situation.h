#pragma once

#include <cstdint>
#include <string>

#include "pons/models/message.h"

namespace pons::gateway {

// Of a conversation: what the conditions of a script look at.
struct Situation {
  std::string user;    // the last message
  std::string system;  // all of it
  std::string tool_result;
  std::uint64_t turn = 0;  // answers so far

  static Situation of(const models::Request& request);
};

}  // namespace pons::gateway
