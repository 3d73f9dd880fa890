#include <array>
#include <utility>

#include "pons/sandbox/wire.h"

namespace pons::sandbox {

namespace {

// For a status, the first code that has it is the likeliest meaning.
constexpr std::array<std::pair<ErrorCode, int>, 10> kStatuses = {{
    {ErrorCode::kInvalid, 400},
    {ErrorCode::kDenied, 403},
    {ErrorCode::kNotFound, 404},
    {ErrorCode::kConflict, 409},
    {ErrorCode::kLimit, 429},
    {ErrorCode::kInternal, 500},
    {ErrorCode::kIo, 500},
    {ErrorCode::kUnsupported, 501},
    {ErrorCode::kUnavailable, 503},
    {ErrorCode::kTimeout, 504},
}};

}  // namespace

int status_of(ErrorCode code) {
  for (const auto& [known, status] : kStatuses)
    if (known == code) return status;
  return 500;
}

ErrorCode code_of(int status, std::string_view type) {
  for (const auto& [code, unused] : kStatuses)
    if (to_string(code) == type) return code;
  for (const auto& [code, known] : kStatuses)
    if (known == status) return code;
  // What a server's own limits answer before any handler runs.
  constexpr int kContentTooLarge = 413;
  if (status == kContentTooLarge) return ErrorCode::kLimit;
  if (status >= 400 && status < 500) return ErrorCode::kInvalid;
  return ErrorCode::kUnavailable;
}

}  // namespace pons::sandbox
