#include "failures.h"

#include <fmt/format.h>

#include "pons/session/tool_text.h"

namespace pons::session {

std::string reason_of(std::string message) {
  constexpr std::size_t kReasonBytesMax = 4'000;
  return shorten(printable(std::move(message)), kReasonBytesMax);
}

std::string reason_of(const Error& error) {
  return reason_of(error.message.empty() ? error.describe() : error.message);
}

ToolEnded refused(Seq call, const Error& error) {
  return {
      .call = call, .outcome = ToolOutcome::kRefused, .is_error = true, .text = reason_of(error)};
}

ToolEnded failed(Seq call, const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kLimit:
    case ErrorCode::kUnsupported:
    case ErrorCode::kDenied:
      return refused(call, error);
    default:
      return {.call = call,
              .outcome = ToolOutcome::kInterrupted,
              .is_error = true,
              .text = fmt::format("interrupted: {}. It may have run; look before you run it again",
                                  reason_of(error))};
  }
}

}  // namespace pons::session
