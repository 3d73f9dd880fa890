#include "pons/http/chunked.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "octets.h"
#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::http {
namespace {

constexpr std::uint8_t kMaxSizeDigits = 16;
constexpr std::uint64_t kMaxChunkBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::uint32_t kMaxChunkExtensionBytes = 256;
// Without a total, one byte of payload per chunk could cost the reader 260 bytes of framing, for as
// long as the body lasts.
constexpr std::uint32_t kMaxBodyExtensionBytes = 16 * 1024;
constexpr std::uint32_t kMaxTrailerBytes = 8 * 1024;
constexpr std::uint32_t kMaxTrailerFields = 32;

// -1 for anything but a hexadecimal digit.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

ChunkedDecoder::Step ChunkedDecoder::next(std::string_view buffer) {
  std::size_t consumed = 0;
  for (;;) {
    if (state_ == State::kEnd) return {.state = Step::State::kEnd, .consumed = consumed};
    if (state_ == State::kRefused)
      return {.state = Step::State::kRefused, .consumed = consumed, .reason = reason_};
    if (consumed == buffer.size()) return {.state = Step::State::kNeedMore, .consumed = consumed};
    if (state_ == State::kData) break;
    take(buffer[consumed]);
    ++consumed;
  }
  const auto bytes =
      static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, buffer.size() - consumed));
  remaining_ -= bytes;
  if (remaining_ == 0) state_ = State::kDataReturn;
  return {.state = Step::State::kPayload,
          .consumed = consumed + bytes,
          .payload = buffer.substr(consumed, bytes)};
}

// One byte of framing.
void ChunkedDecoder::take(char c) {
  switch (state_) {
    case State::kSizeStart:
    case State::kSize:
      return take_size(c);
    case State::kSizeNewline:
      if (c != '\n') return refuse("CR without LF behind a chunk size");
      state_ = remaining_ == 0 ? State::kTrailerStart : State::kData;
      return;
    case State::kDataReturn:
      if (c != '\r') return refuse("chunk is longer than its size says");
      state_ = State::kDataNewline;
      return;
    case State::kDataNewline:
      if (c != '\n') return refuse("CR without LF behind a chunk");
      state_ = State::kSizeStart;
      return;
    case State::kTrailerStart:
    case State::kTrailerName:
    case State::kTrailerValue:
    case State::kTrailerNewline:
    case State::kFinalNewline:
      return take_trailer(c);
    default:
      return take_extension(c);
  }
}

void ChunkedDecoder::take_size(char c) {
  const int digit = hex_digit(c);
  if (state_ == State::kSizeStart) {
    if (digit < 0) return refuse("chunk does not begin with its size");
    state_ = State::kSize;
    size_digits_ = 0;
    remaining_ = 0;
    chunk_extension_bytes_ = 0;
  }
  if (digit < 0) return end_size_line_or_begin_extension(c);
  if (++size_digits_ > kMaxSizeDigits) return refuse("chunk size has more than 16 digits");
  remaining_ = remaining_ << 4 | static_cast<std::uint64_t>(digit);
  if (remaining_ > kMaxChunkBytes) refuse("chunk size is not below 2^63");
}

void ChunkedDecoder::end_size_line_or_begin_extension(char c) {
  if (c == '\r') {
    state_ = State::kSizeNewline;
  } else if (c == ';') {
    state_ = State::kExtensionNameStart;
  } else {
    refuse("chunk size line holds something else than a size and extensions");
  }
}

// ;name, ;name=token or ;name="quoted". The white space that RFC 9112 lets a sender put between
// these ("bad" white space there) is refused.
void ChunkedDecoder::take_extension(char c) {
  if (++chunk_extension_bytes_ > kMaxChunkExtensionBytes ||
      ++body_extension_bytes_ > kMaxBodyExtensionBytes)
    return refuse("chunk extensions are too long");
  constexpr const char* kMalformed = "chunk extension is malformed";
  switch (state_) {
    case State::kExtensionNameStart:
      if (!is_octet(c, kTokenOctet)) return refuse(kMalformed);
      state_ = State::kExtensionName;
      return;
    case State::kExtensionName:
      if (c == '=') {
        state_ = State::kExtensionValueStart;
      } else if (!is_octet(c, kTokenOctet)) {
        end_size_line_or_begin_extension(c);
      }
      return;
    case State::kExtensionValueStart:
      if (c != '"' && !is_octet(c, kTokenOctet)) return refuse(kMalformed);
      state_ = c == '"' ? State::kQuoted : State::kExtensionValue;
      return;
    case State::kExtensionValue:
      if (!is_octet(c, kTokenOctet)) end_size_line_or_begin_extension(c);
      return;
    case State::kQuoted:
      if (!is_octet(c, kValueOctet)) return refuse(kMalformed);
      if (c == '"') state_ = State::kQuotedEnd;
      if (c == '\\') state_ = State::kQuotedPair;
      return;
    case State::kQuotedPair:
      if (!is_octet(c, kValueOctet)) return refuse(kMalformed);
      state_ = State::kQuoted;
      return;
    default:
      CHECK(state_ == State::kQuotedEnd);
      return end_size_line_or_begin_extension(c);
  }
}

void ChunkedDecoder::take_trailer(char c) {
  if (++trailer_bytes_ > kMaxTrailerBytes) return refuse("trailers are too long");
  const bool is_last_line =
      state_ == State::kFinalNewline || (state_ == State::kTrailerStart && c == '\r');
  if (trailers_ != nullptr && !is_last_line) *trailers_ += c;
  switch (state_) {
    case State::kTrailerStart:
      if (c == '\r') {
        state_ = State::kFinalNewline;
        return;
      }
      if (!is_octet(c, kTokenOctet)) return refuse("trailer name is not a token");
      if (++trailer_fields_ > kMaxTrailerFields) return refuse("too many trailers");
      trailer_name_[0] = c;
      trailer_name_bytes_ = 1;
      state_ = State::kTrailerName;
      return;
    case State::kTrailerName:
      if (c == ':') {
        if (is_forbidden_trailer()) return refuse("trailer may not set framing or host");
        state_ = State::kTrailerValue;
      } else if (!is_octet(c, kTokenOctet)) {
        refuse("trailer name is not a token with a colon behind it");
      } else if (trailer_name_bytes_ < kTrailerNameKept) {
        trailer_name_[trailer_name_bytes_++] = c;
      }
      return;
    case State::kTrailerValue:
      if (c == '\r') {
        state_ = State::kTrailerNewline;
      } else if (!is_octet(c, kValueOctet)) {
        refuse("control character in a trailer");
      }
      return;
    case State::kTrailerNewline:
      if (c != '\n') return refuse("CR without LF behind a trailer");
      state_ = State::kTrailerStart;
      return;
    default:
      CHECK(state_ == State::kFinalNewline);
      if (c != '\n') return refuse("CR without LF behind the last chunk");
      state_ = State::kEnd;
  }
}

bool ChunkedDecoder::is_forbidden_trailer() const {
  const std::string_view name(trailer_name_, trailer_name_bytes_);
  return equal_ignoring_case(name, "content-length") ||
         equal_ignoring_case(name, "transfer-encoding") || equal_ignoring_case(name, "host");
}

void ChunkedDecoder::refuse(const char* reason) {
  state_ = State::kRefused;
  reason_ = reason;
}

std::size_t chunk_prefix(char (&out)[20], std::size_t payload_bytes) {
  CHECK(payload_bytes > 0);
  char* end = std::to_chars(out, out + sizeof out, payload_bytes, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return static_cast<std::size_t>(end - out);
}

}  // namespace pons::http
