// The first byte picks role, limit and how the stream is cut; the rest is the stream. Holds: the
// cut changes nothing, every message keeps its promises, and what was read can be written and read
// again.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/check.h"
#include "pons/base/text.h"
#include "pons/http/websocket_frame.h"

namespace {

using namespace pons::http;
using State = WebSocketDecoder::Step::State;

struct Message {
  WebSocketEventKind kind;
  std::string payload;
  std::uint16_t close_code;
  bool operator==(const Message&) const = default;
};

struct Outcome {
  std::vector<Message> messages;
  std::uint16_t refused_with = 0;
  std::string reason;
  bool operator==(const Outcome&) const = default;
};

void check_message(const WebSocketEvent& event, WebSocketLimits limits) {
  switch (event.kind) {
    case WebSocketEventKind::kText:
      CHECK(pons::is_valid_utf8(event.payload));
      [[fallthrough]];
    case WebSocketEventKind::kBinary:
      CHECK(event.payload.size() <= limits.message_bytes);
      break;
    case WebSocketEventKind::kPing:
    case WebSocketEventKind::kPong:
      CHECK(event.payload.size() <= 125);
      break;
    case WebSocketEventKind::kClose:
      CHECK(event.payload.size() <= 123 && pons::is_valid_utf8(event.payload));
      CHECK(event.close_code == 0 ? event.payload.empty()
                                  : is_websocket_close_code(event.close_code));
  }
}

Outcome decode(WebSocketRole role, WebSocketLimits limits, std::string_view stream,
               std::size_t piece) {
  WebSocketDecoder decoder(role, limits);
  Outcome outcome;
  while (!stream.empty() && outcome.refused_with == 0) {
    // A copy of its own size, so that the sanitizer sees a read past the piece.
    const std::string bytes(stream.substr(0, piece));
    stream.remove_prefix(bytes.size());
    std::string_view rest = bytes;
    for (;;) {
      const auto step = decoder.next(rest);
      CHECK(step.consumed <= rest.size());
      rest.remove_prefix(step.consumed);
      if (step.state == State::kEvent) {
        check_message(step.event, limits);
        CHECK(outcome.messages.empty() ||
              outcome.messages.back().kind != WebSocketEventKind::kClose);
        outcome.messages.push_back(
            {step.event.kind, std::string(step.event.payload), step.event.close_code});
        continue;
      }
      if (step.state == State::kRefused) {
        CHECK(step.close_code == 1002 || step.close_code == 1007 || step.close_code == 1009);
        outcome.refused_with = step.close_code;
        outcome.reason = step.reason;
      } else {
        CHECK(rest.empty());
      }
      break;
    }
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto role = (data[0] & 1) != 0 ? WebSocketRole::kServer : WebSocketRole::kClient;
  const auto peer = (data[0] & 1) != 0 ? WebSocketRole::kClient : WebSocketRole::kServer;
  const WebSocketLimits limits{.message_bytes = (data[0] & 2) != 0 ? 200uz : 1uz << 20};

  const Outcome whole = decode(role, limits, stream, stream.size());
  CHECK(decode(role, limits, stream, 1) == whole);
  CHECK(decode(role, limits, stream, 2 + data[0] / 4) == whole);

  std::string written;
  for (const auto& message : whole.messages)
    append_websocket_frame(written, peer, message.kind, message.payload, message.close_code);
  const Outcome again = decode(role, limits, written, written.size());
  CHECK(again.refused_with == 0 && again.messages == whole.messages);
  return 0;
}
