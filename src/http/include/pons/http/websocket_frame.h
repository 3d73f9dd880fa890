#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pons/base/text.h"

namespace pons::http {

// WebSocket frames (RFC 6455, version 13) without I/O: bytes in, messages out, and the reverse. No
// extension exists here, so compression is neither offered nor accepted.

// Which end of the connection we are. A server requires masked frames, a client refuses them.
enum class WebSocketRole : std::uint8_t { kServer, kClient };

struct WebSocketLimits {
  std::size_t message_bytes = 16 * 1024 * 1024;  // of one message, all its fragments together
};

enum class WebSocketEventKind : std::uint8_t { kText, kBinary, kPing, kPong, kClose };

struct WebSocketEvent {
  WebSocketEventKind kind = WebSocketEventKind::kText;
  std::string_view payload;      // of kText valid UTF-8; of kClose the reason, valid UTF-8
  std::uint16_t close_code = 0;  // kClose only; 0 when the peer gave none
};

class WebSocketDecoder {
 public:
  WebSocketDecoder(WebSocketRole role, WebSocketLimits limits);

  struct Step {
    enum class State : std::uint8_t {
      kEvent,     // `event` is set; call again with what was not consumed
      kNeedMore,  // everything was consumed
      kRefused,   // final: close the connection with `close_code` (1002, 1007, 1009)
    } state = State::kNeedMore;
    std::size_t consumed = 0;
    WebSocketEvent event;  // its payload stays valid until the next call
    std::uint16_t close_code = 0;
    const char* reason = "";  // static text, fit to be sent as the close reason
  };

  // Takes the stream in any cut and never looks at a byte twice. Fragments come out joined, control
  // frames between them at once. After kClose the rest of the stream is swallowed without a look.
  // Memory grows with the bytes that arrived: a length that was only announced buys at most 16 KiB.
  Step next(std::string_view buffer);

 private:
  // Each takes what it needs from the front of `rest`; false means that more bytes are needed or
  // that the stream was refused.
  bool take_header(std::string_view& rest);
  bool take_payload(std::string_view& rest);
  bool gather_header(std::string_view& rest, std::size_t size);
  bool check_opening();
  bool check_length();
  void open_frame();
  // True when the frame completes an event.
  bool finish_frame(WebSocketEvent& event);
  bool finish_close(WebSocketEvent& event);
  bool refuse(std::uint16_t close_code, const char* reason);
  void drop_delivered_message();

  std::uint8_t opcode() const { return static_cast<std::uint8_t>(header_[0]) & 0x0F; }
  bool is_final() const { return (static_cast<std::uint8_t>(header_[0]) & 0x80) != 0; }
  bool is_control() const { return (opcode() & 0x08) != 0; }
  bool is_masked() const { return (static_cast<std::uint8_t>(header_[1]) & 0x80) != 0; }
  std::uint8_t short_length() const { return static_cast<std::uint8_t>(header_[1]) & 0x7F; }

  WebSocketRole role_;
  std::size_t message_bytes_max_;

  std::array<char, 14> header_{};  // of the current frame; the longest one RFC 6455 knows
  std::size_t header_size_ = 0;
  bool frame_open_ = false;          // the header is whole and was accepted
  std::uint64_t payload_size_ = 0;   // of the current frame
  std::uint64_t payload_taken_ = 0;  // of it
  std::array<char, 4> mask_key_{};   // zero when the frame is not masked

  bool message_open_ = false;       // more fragments must follow
  bool message_delivered_ = false;  // message_ is what the last event points to
  WebSocketEventKind message_kind_ = WebSocketEventKind::kText;
  Utf8Validator message_text_;
  std::string message_;
  std::string control_;  // payload of a control frame, which may come inside a message

  bool closed_ = false;
  std::uint16_t refused_with_ = 0;  // close code
  const char* refused_because_ = "";
};

// Close codes that may stand in a frame: 1000-1003, 1007-1011, 3000-4999.
bool is_websocket_close_code(std::uint16_t code);

// Appends one unfragmented frame; clients mask with a fresh random key. `payload` must not lie in
// `out`. A kText payload and a close reason must be UTF-8, or the peer will end the connection.
// kPing and kPong carry at most 125 bytes. kClose carries a legal code and a reason, which is cut
// between code points to the 123 bytes that fit; or, with code 0, nothing.
void append_websocket_frame(std::string& out, WebSocketRole role, WebSocketEventKind kind,
                            std::string_view payload, std::uint16_t close_code = 0);

// The Sec-WebSocket-Accept that answers a Sec-WebSocket-Key.
std::string websocket_accept_key(std::string_view client_key);

// True for 24 base64 characters that decode to 16 bytes.
bool is_websocket_key(std::string_view text);
std::string make_websocket_key();

}  // namespace pons::http
