#include "connect.h"

#include <nlohmann/json.hpp>

#include "pons/base/check.h"
#include "pons/base/json.h"

namespace pons::e2b {

EnvelopeParse parse_envelope(std::string_view bytes, std::size_t payload_max) {
  using State = EnvelopeParse::State;
  if (!bytes.empty() && bytes[0] != Envelope::kMessage)
    return {.state = State::kRefused, .reason = "only plain messages are taken, uncompressed"};
  if (bytes.size() < Envelope::kHeadBytes) return {};
  std::size_t size = 0;
  for (std::size_t i = 1; i < Envelope::kHeadBytes; ++i)
    size = size << 8 | static_cast<unsigned char>(bytes[i]);
  if (size > payload_max) return {.state = State::kRefused, .reason = "the message is too long"};
  if (bytes.size() - Envelope::kHeadBytes < size) return {};
  return {.state = State::kDone,
          .consumed = Envelope::kHeadBytes + size,
          .payload = bytes.substr(Envelope::kHeadBytes, size)};
}

std::string make_envelope(std::uint8_t flags, std::string_view payload) {
  CHECK(payload.size() <= UINT32_MAX);
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::string bytes;
  bytes.reserve(Envelope::kHeadBytes + payload.size());
  bytes += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xFF);
  bytes += payload;
  return bytes;
}

namespace {

// By its own step, or as the warden describes those of the cell and of the cell's programs. What
// follows may be anything, the name of a file among it.
bool names_nobody(const Error& error) {
  return std::string_view(error.step) == "find user" || error.message.starts_with("find user (") ||
         error.message.starts_with("use file: cannot find user ");
}

}  // namespace

RpcCode rpc_code(const Error& error) {
  // A name that stands for nobody in the sandbox is a wrong login to the SDKs.
  if (names_nobody(error)) return {"unauthenticated", 401};
  switch (error.code) {
    case ErrorCode::kInvalid:
      return {"invalid_argument", 400};
    case ErrorCode::kNotFound:
      return {"not_found", 404};
    case ErrorCode::kDenied:
      return {"permission_denied", 403};
    case ErrorCode::kConflict:
      return {"already_exists", 409};
    case ErrorCode::kLimit:
      return {"resource_exhausted", 429};
    case ErrorCode::kTimeout:
      return {"deadline_exceeded", 504};
    case ErrorCode::kUnavailable:
      return {"unavailable", 503};
    case ErrorCode::kUnsupported:
      return {"unimplemented", 501};
    case ErrorCode::kIo:
    case ErrorCode::kInternal:
      break;
  }
  return {"internal", 500};
}

std::string rpc_error_json(const Error& error) {
  return dump_json({{"code", rpc_code(error).name}, {"message", explain(error)}});
}

std::string end_of_stream(const Error& error) {
  return make_envelope(Envelope::kEnd, "{\"error\":" + rpc_error_json(error) + "}");
}

std::string explain(const Error& error) {
  return error.message.empty() ? error.describe() : error.message;
}

}  // namespace pons::e2b
