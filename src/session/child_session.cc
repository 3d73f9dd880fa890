// Apart from call_id.cc: a test program puts a function of its own in the place of that file's.
#include "pons/base/text.h"
#include "pons/session/call_id.h"

namespace pons::session {

std::string child_session_of(std::string_view session, Seq call) {
  constexpr std::size_t kDigits = 26;
  return "ses_" + sha256_hex(call_id_of(session, call)).substr(0, kDigits);
}

}  // namespace pons::session
