#include "pons/spawner/protocol.h"

#include <cstring>

namespace pons::spawner {

std::optional<Request> parse_request(std::string_view bytes) {
  Request request;
  if (bytes.size() != sizeof request) return std::nullopt;
  std::memcpy(&request, bytes.data(), sizeof request);
  if (request.magic != kMagic || request.version != kVersion) return std::nullopt;
  if (request.kind != RequestKind::kIdentify && request.kind != RequestKind::kAttempt)
    return std::nullopt;
  return request;
}

std::optional<Reply> parse_reply(std::string_view bytes) {
  Reply reply;
  if (bytes.size() != sizeof reply) return std::nullopt;
  std::memcpy(&reply, bytes.data(), sizeof reply);
  if (reply.magic != kMagic || reply.status > Status::kBadRequest) return std::nullopt;
  if (reply.os_error < 0 || reply.os_error > kOsErrorMax) return std::nullopt;
  return reply;
}

}  // namespace pons::spawner
