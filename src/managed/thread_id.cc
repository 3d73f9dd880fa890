#include "thread_id.h"

#include "pons/base/id.h"

namespace pons::managed {

namespace {

constexpr std::string_view kPrefix = "sthr_";
constexpr std::string_view kAgentSessions = "ses_";

}  // namespace

std::string write_thread_id(std::string_view session) {
  return std::string(kPrefix) + std::string(session.substr(session.find('_') + 1));
}

std::optional<std::string> parse_thread_id(std::string_view session, std::string_view text) {
  constexpr std::size_t kLengthMax = 64;
  if (!text.starts_with(kPrefix) || text.size() > kLengthMax || !is_id_text(text))
    return std::nullopt;
  if (text == write_thread_id(session)) return std::string(session);
  return std::string(kAgentSessions) + std::string(text.substr(kPrefix.size()));
}

}  // namespace pons::managed
