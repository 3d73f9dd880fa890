#include "pons/base/result.h"

#include <cstring>

#include <fmt/format.h>

namespace pons {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kDenied:
      return "denied";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kLimit:
      return "limit";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ESRCH:
    case ENXIO:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kDenied;
    case EEXIST:
    case EADDRINUSE:
    case EBUSY:
      return ErrorCode::kConflict;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return ErrorCode::kLimit;
    case ETIMEDOUT:
      return ErrorCode::kTimeout;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return ErrorCode::kUnavailable;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
      return ErrorCode::kUnsupported;
    case EINVAL:
    case ENAMETOOLONG:
      return ErrorCode::kInvalid;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

Error os_error(const char* step, std::string message, int error) {
  return Error{
      .code = code_of(error), .step = step, .os_error = error, .message = std::move(message)};
}

std::string Error::describe() const {
  std::string text = step;
  if (!message.empty()) text += text.empty() ? message : ": " + message;
  if (os_error != 0) text += fmt::format(" ({})", std::strerror(os_error));
  return text.empty() ? std::string(to_string(code)) : text;
}

}  // namespace pons
