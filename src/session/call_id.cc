#include "pons/session/call_id.h"

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::session {

std::string call_id_of(std::string_view session, Seq call) {
  return fmt::format("{}:{}", session, call);
}

std::string child_session_of(std::string_view session, Seq call) {
  constexpr std::size_t kDigits = 26;
  return "ses_" + sha256_hex(call_id_of(session, call)).substr(0, kDigits);
}

}  // namespace pons::session
