#include "pons/http/websocket_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "pons/base/check.h"
#include "pons/base/id.h"

namespace pons::http {
namespace {

constexpr std::uint8_t kContinuation = 0x0;
constexpr std::uint8_t kText = 0x1;
constexpr std::uint8_t kBinary = 0x2;
constexpr std::uint8_t kClose = 0x8;
constexpr std::uint8_t kPing = 0x9;
constexpr std::uint8_t kPong = 0xA;

constexpr std::size_t kOpeningSize =
    2;  // opcode and short length; a longer length and the key follow
constexpr std::uint8_t kFinalBit = 0x80;
constexpr std::uint8_t kReservedBits = 0x70;
constexpr std::uint8_t kMaskBit = 0x80;
constexpr std::uint8_t kLength16 = 126;  // in the short length: two bytes of length follow
constexpr std::uint8_t kLength64 = 127;  // eight bytes follow
constexpr std::size_t kControlPayloadMax = 125;
constexpr std::size_t kCloseCodeSize = 2;

constexpr std::uint16_t kProtocolError = 1002;
constexpr std::uint16_t kInvalidText = 1007;
constexpr std::uint16_t kMessageTooBig = 1009;

// What an idle connection may keep, and what one may make us allocate by a header alone.
constexpr std::size_t kHeldBytes = 16 * 1024;

using MaskKey = std::array<char, 4>;

// Writes `bytes` to `out` with the mask laid over; masking and unmasking are the same. `position`
// is how far into the frame's payload the bytes begin.
void apply_mask(char* out, std::string_view bytes, MaskKey key, std::uint64_t position) {
  std::array<char, 8> turned;
  for (std::size_t i = 0; i < turned.size(); ++i) turned[i] = key[(position + i) % key.size()];
  const auto mask = std::bit_cast<std::uint64_t>(turned);
  std::size_t i = 0;
  for (std::uint64_t word = 0; bytes.size() - i >= sizeof word; i += sizeof word) {
    std::memcpy(&word, bytes.data() + i, sizeof word);
    word ^= mask;
    std::memcpy(out + i, &word, sizeof word);
  }
  for (; i < bytes.size(); ++i) out[i] = static_cast<char>(bytes[i] ^ turned[i % turned.size()]);
}

// Copies and masks in one pass, into memory that is not cleared first. The size that libstdc++ 12
// hands to the callback is the grown capacity, not the size that was asked for.
void append_masked(std::string& out, std::string_view bytes, MaskKey key, std::uint64_t position) {
  const std::size_t start = out.size();
  out.resize_and_overwrite(start + bytes.size(), [&](char* data, std::size_t) {
    apply_mask(data + start, bytes, key, position);
    return start + bytes.size();
  });
}

std::uint64_t read_big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<std::uint8_t>(c);
  return value;
}

void append_big_endian(std::string& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = size; i-- > 0;) out += static_cast<char>(value >> (8 * i));
}

std::size_t length_field_size(std::uint8_t short_length) {
  if (short_length == kLength64) return 8;
  return short_length == kLength16 ? 2 : 0;
}

std::uint8_t opcode_of(WebSocketEventKind kind) {
  switch (kind) {
    case WebSocketEventKind::kText:
      return kText;
    case WebSocketEventKind::kBinary:
      return kBinary;
    case WebSocketEventKind::kPing:
      return kPing;
    case WebSocketEventKind::kPong:
      return kPong;
    case WebSocketEventKind::kClose:
      return kClose;
  }
  CHECK(false);
  return kClose;
}

// The longest beginning of at most `size` bytes that does not end inside a code point.
std::string_view cut_between_code_points(std::string_view text, std::size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<std::uint8_t>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

void append_header(std::string& out, WebSocketRole role, std::uint8_t opcode, std::size_t size) {
  const std::uint8_t mask_bit = role == WebSocketRole::kClient ? kMaskBit : 0;
  out += static_cast<char>(kFinalBit | opcode);
  if (size < kLength16) {
    out += static_cast<char>(mask_bit | size);
  } else if (size <= 0xFFFF) {
    out += static_cast<char>(mask_bit | kLength16);
    append_big_endian(out, size, 2);
  } else {
    out += static_cast<char>(mask_bit | kLength64);
    append_big_endian(out, size, 8);
  }
}

}  // namespace

WebSocketDecoder::WebSocketDecoder(WebSocketRole role, WebSocketLimits limits)
    : role_(role), message_bytes_max_(limits.message_bytes) {}

WebSocketDecoder::Step WebSocketDecoder::next(std::string_view buffer) {
  drop_delivered_message();
  std::string_view rest = buffer;
  Step step;
  while (!closed_ && refused_with_ == 0 && take_header(rest) && take_payload(rest)) {
    if (!finish_frame(step.event)) continue;
    step.state = Step::State::kEvent;
    step.consumed = buffer.size() - rest.size();
    return step;
  }
  step.consumed = buffer.size();
  if (refused_with_ != 0) {
    step.state = Step::State::kRefused;
    step.close_code = refused_with_;
    step.reason = refused_because_;
  }
  return step;
}

// Judges each part as soon as it is there. The checks change nothing, so a header that arrives in
// pieces may pass them again.
bool WebSocketDecoder::take_header(std::string_view& rest) {
  if (frame_open_) return true;
  if (!gather_header(rest, kOpeningSize) || !check_opening()) return false;
  const std::size_t key_at = kOpeningSize + length_field_size(short_length());
  if (!gather_header(rest, key_at) || !check_length()) return false;
  if (!gather_header(rest, key_at + (is_masked() ? mask_key_.size() : 0))) return false;
  open_frame();
  return true;
}

bool WebSocketDecoder::gather_header(std::string_view& rest, std::size_t size) {
  if (header_size_ >= size) return true;
  const std::size_t taken = std::min(size - header_size_, rest.size());
  std::copy_n(rest.begin(), taken, header_.begin() + static_cast<std::ptrdiff_t>(header_size_));
  header_size_ += taken;
  rest.remove_prefix(taken);
  return header_size_ == size;
}

bool WebSocketDecoder::check_opening() {
  if ((static_cast<std::uint8_t>(header_[0]) & kReservedBits) != 0)
    return refuse(kProtocolError, "reserved bit set, but no extension is in use");
  if (is_masked() != (role_ == WebSocketRole::kServer))
    return refuse(kProtocolError, is_masked() ? "frame from a server is masked"
                                              : "frame from a client is not masked");
  switch (opcode()) {
    case kContinuation:
      if (!message_open_) return refuse(kProtocolError, "continuation outside of a message");
      return true;
    case kText:
    case kBinary:
      if (message_open_) return refuse(kProtocolError, "new message inside a fragmented one");
      return true;
    case kClose:
    case kPing:
    case kPong:
      if (!is_final()) return refuse(kProtocolError, "control frame is fragmented");
      if (short_length() > kControlPayloadMax)
        return refuse(kProtocolError, "control frame is longer than 125 bytes");
      if (opcode() == kClose && short_length() == 1)
        return refuse(kProtocolError, "close frame holds half a close code");
      return true;
    default:
      return refuse(kProtocolError, "unknown opcode");
  }
}

bool WebSocketDecoder::check_length() {
  const std::size_t field_size = length_field_size(short_length());
  payload_size_ = field_size == 0 ? short_length()
                                  : read_big_endian({header_.data() + kOpeningSize, field_size});
  if ((field_size == 2 && payload_size_ < kLength16) ||
      (field_size == 8 && payload_size_ <= 0xFFFF))
    return refuse(kProtocolError, "length is not in its shortest form");
  if (payload_size_ >> 63 != 0) return refuse(kProtocolError, "length has its top bit set");
  if (!is_control() && payload_size_ > message_bytes_max_ - message_.size())
    return refuse(kMessageTooBig, "message is too big");
  return true;
}

void WebSocketDecoder::open_frame() {
  frame_open_ = true;
  payload_taken_ = 0;
  mask_key_ = {};
  if (is_masked())
    std::copy_n(header_.data() + header_size_ - mask_key_.size(), mask_key_.size(),
                mask_key_.begin());
  if (is_control()) {
    control_.clear();
  } else if (opcode() != kContinuation) {
    message_kind_ = opcode() == kText ? WebSocketEventKind::kText : WebSocketEventKind::kBinary;
    message_text_ = {};
    message_.reserve(std::min<std::uint64_t>(payload_size_, kHeldBytes));
  }
}

bool WebSocketDecoder::take_payload(std::string_view& rest) {
  const std::string_view piece =
      rest.substr(0, std::min<std::uint64_t>(payload_size_ - payload_taken_, rest.size()));
  std::string& target = is_control() ? control_ : message_;
  append_masked(target, piece, mask_key_, payload_taken_);
  payload_taken_ += piece.size();
  rest.remove_prefix(piece.size());
  if (!is_control() && message_kind_ == WebSocketEventKind::kText &&
      !message_text_.feed(std::string_view(message_).substr(message_.size() - piece.size())))
    return refuse(kInvalidText, "text is not UTF-8");
  return payload_taken_ == payload_size_;
}

bool WebSocketDecoder::finish_frame(WebSocketEvent& event) {
  frame_open_ = false;
  header_size_ = 0;
  switch (opcode()) {
    case kPing:
      event = {.kind = WebSocketEventKind::kPing, .payload = control_};
      return true;
    case kPong:
      event = {.kind = WebSocketEventKind::kPong, .payload = control_};
      return true;
    case kClose:
      return finish_close(event);
    default:
      break;
  }
  message_open_ = !is_final();
  if (message_open_) return false;
  if (message_kind_ == WebSocketEventKind::kText && !message_text_.complete())
    return refuse(kInvalidText, "text ends inside a code point");
  event = {.kind = message_kind_, .payload = message_};
  message_delivered_ = true;
  return true;
}

bool WebSocketDecoder::finish_close(WebSocketEvent& event) {
  std::uint16_t code = 0;
  std::string_view reason = control_;
  if (!reason.empty()) {
    code = static_cast<std::uint16_t>(read_big_endian(reason.substr(0, kCloseCodeSize)));
    reason.remove_prefix(kCloseCodeSize);
    if (!is_websocket_close_code(code)) return refuse(kProtocolError, "close code is not allowed");
    if (!is_valid_utf8(reason)) return refuse(kInvalidText, "close reason is not UTF-8");
  }
  event = {.kind = WebSocketEventKind::kClose, .payload = reason, .close_code = code};
  closed_ = true;
  return true;
}

bool WebSocketDecoder::refuse(std::uint16_t close_code, const char* reason) {
  refused_with_ = close_code;
  refused_because_ = reason;
  return false;
}

void WebSocketDecoder::drop_delivered_message() {
  if (!message_delivered_) return;
  message_delivered_ = false;
  message_.clear();
  if (message_.capacity() > kHeldBytes) message_.shrink_to_fit();
}

bool is_websocket_close_code(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1011) ||
         (code >= 3000 && code <= 4999);
}

void append_websocket_frame(std::string& out, WebSocketRole role, WebSocketEventKind kind,
                            std::string_view payload, std::uint16_t close_code) {
  std::string close_payload;
  if (kind == WebSocketEventKind::kClose) {
    CHECK(close_code == 0 ? payload.empty() : is_websocket_close_code(close_code));
    if (close_code != 0) append_big_endian(close_payload, close_code, kCloseCodeSize);
    close_payload += cut_between_code_points(payload, kControlPayloadMax - kCloseCodeSize);
    payload = close_payload;
  }
  const bool is_data = kind == WebSocketEventKind::kText || kind == WebSocketEventKind::kBinary;
  CHECK(is_data || payload.size() <= kControlPayloadMax);

  append_header(out, role, opcode_of(kind), payload.size());
  if (role == WebSocketRole::kServer) {
    out += payload;
    return;
  }
  MaskKey key;
  random_bytes(key.data(), key.size());
  out.append(key.data(), key.size());
  append_masked(out, payload, key, 0);
}

std::string websocket_accept_key(std::string_view client_key) {
  constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455, 1.3
  const std::string text = std::string(client_key).append(kGuid);
  std::array<char, SHA_DIGEST_LENGTH> digest;
  CHECK(EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()),
                   nullptr, EVP_sha1(), nullptr) == 1);
  return base64_encode({digest.data(), digest.size()});
}

bool is_websocket_key(std::string_view text) {
  constexpr std::size_t kDigits = 22;  // 16 bytes in base64, before the two of padding
  if (text.size() != kDigits + 2 || !text.ends_with("==")) return false;
  return std::ranges::all_of(text.substr(0, kDigits), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
  });
}

std::string make_websocket_key() {
  std::array<char, 16> nonce;
  random_bytes(nonce.data(), nonce.size());
  return base64_encode({nonce.data(), nonce.size()});
}

}  // namespace pons::http
