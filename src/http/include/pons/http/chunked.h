#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pons::http {

// Reads one chunked body (RFC 9112 section 7.1) out of whatever pieces it arrives in; the result
// does not depend on where the input is cut. Allocates nothing and copies no payload.
class ChunkedDecoder {
 public:
  struct Step {
    enum class State : std::uint8_t { kPayload, kNeedMore, kEnd, kRefused } state;
    // In every state: so many bytes at the start of the buffer are done with. Call again with the
    // rest.
    std::size_t consumed = 0;
    std::string_view payload;  // kPayload: not empty, inside buffer[0, consumed)
    const char* reason = "";   // kRefused: a static sentence that names what is wrong
  };

  // After kEnd, what was not consumed belongs to the next message. kEnd and kRefused stay until
  // reset(). Trailers are checked and bounded, and dropped unless keep_trailers() is called.
  Step next(std::string_view buffer);
  void reset() { *this = ChunkedDecoder(); }
  // Appends them to `into`, each a line "name:value\r\n" as it came: at most 8 KiB. Until reset();
  // `into` outlives that.
  void keep_trailers(std::string& into) { trailers_ = &into; }

 private:
  enum class State : std::uint8_t {
    kSizeStart,
    kSize,
    kExtensionNameStart,
    kExtensionName,
    kExtensionValueStart,
    kExtensionValue,
    kQuoted,
    kQuotedPair,
    kQuotedEnd,
    kSizeNewline,
    kData,
    kDataReturn,
    kDataNewline,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerNewline,
    kFinalNewline,
    kEnd,
    kRefused,
  };

  void take(char c);
  void take_size(char c);
  void take_extension(char c);
  void take_trailer(char c);
  void end_size_line_or_begin_extension(char c);
  bool is_forbidden_trailer() const;
  void refuse(const char* reason);

  static constexpr std::size_t kTrailerNameKept = 20;  // longer than any name that is looked for

  State state_ = State::kSizeStart;
  std::uint8_t size_digits_ = 0;
  std::uint8_t trailer_name_bytes_ = 0;  // stops at kTrailerNameKept
  char trailer_name_[kTrailerNameKept] = {};
  std::uint32_t chunk_extension_bytes_ = 0;
  std::uint32_t body_extension_bytes_ = 0;
  std::uint32_t trailer_bytes_ = 0;
  std::uint32_t trailer_fields_ = 0;
  std::uint64_t remaining_ = 0;  // of this chunk
  const char* reason_ = "";
  std::string* trailers_ = nullptr;
};

// Writes "<hex>\r\n", which goes before a chunk, and returns its length. CHECKs that the payload is
// not empty: a chunk of 0 bytes would end the body.
std::size_t chunk_prefix(char (&out)[20], std::size_t payload_bytes);
inline constexpr std::string_view kChunkSuffix = "\r\n";  // goes after each chunk
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace pons::http
