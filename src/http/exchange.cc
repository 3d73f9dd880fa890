#include "pons/http/exchange.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::http {

Response error_response(int status, std::string_view type, std::string_view message) {
  return {.status = status,
          .body = dump_json({{"error", {{"type", type}, {"message", message}}}}) + "\n"};
}

Task<Result<std::string>> Exchange::read_whole_body(std::size_t bytes_max) {
  std::string body;
  // As far as a client is believed that has sent nothing yet.
  constexpr std::size_t kReservedMax = 1024 * 1024;
  if (request().framing == BodyFraming::kLength)
    body.reserve(std::min<std::uint64_t>({request().content_length, bytes_max, kReservedMax}));
  for (;;) {
    CO_TRY(const std::string_view piece, co_await read_body());
    if (piece.empty()) co_return body;
    if (piece.size() > bytes_max - body.size())
      co_return make_error(ErrorCode::kLimit, "read request body",
                           fmt::format("the body is larger than {} bytes", bytes_max));
    body += piece;
  }
}

const OwnedFields& Exchange::trailers() const {
  static const OwnedFields kNone;
  return kNone;
}

Task<Result<void>> Exchange::start_events() {
  return start({.content_type = "text/event-stream",
                // Proxies in between must neither store nor collect the events.
                .fields = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}});
}

Task<Result<void>> Exchange::send_event(ServerEvent event) {
  std::string text;
  CO_TRY_VOID(append_server_event(text, event));
  co_return co_await write(text);
}

}  // namespace pons::http
