#include "pons/session/call_id.h"

#include <fmt/format.h>

namespace pons::session {

std::string call_id_of(std::string_view session, Seq call) {
  return fmt::format("{}:{}", session, call);
}

}  // namespace pons::session
