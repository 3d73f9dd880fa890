#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Reads and writes the heads of HTTP/1.0 and HTTP/1.1 messages (RFC 9110, RFC 9112) without doing
// any I/O. Where the RFCs let a recipient repair a message, this one refuses it: two readers that
// repair differently are how a request is smuggled past one of them.
namespace pons::http {

// Views into the caller's buffer; the value is trimmed of SP and HTAB.
struct Field {
  std::string_view name;
  std::string_view value;
};

struct HeadLimits {
  std::size_t bytes = 16 * 1024;  // from the first byte through the empty line
  std::size_t fields = 100;
  std::size_t target_bytes = 8 * 1024;
};

// kUntilClose: responses only. A request without length and coding has no body.
enum class BodyFraming : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

struct Head {
  int minor_version = 1;      // HTTP/1.<minor>: 0 or 1
  std::vector<Field> fields;  // reused between messages: clear() keeps the capacity
  BodyFraming framing = BodyFraming::kNone;
  std::uint64_t content_length = 0;  // with kLength only; may be 0; below 2^63
  bool keep_alive = true;            // after Connection, version and framing have spoken
  bool upgrade = false;              // 1.1, Connection has "upgrade" and an Upgrade field is there

  // The value of the first field of that name, whatever its case.
  std::optional<std::string_view> find(std::string_view name) const;
};

struct RequestHead : Head {
  std::string_view method;
  std::string_view target;  // as sent: origin-form, absolute-form, "*", or CONNECT's host:port
  // Valid "name", "name:port" or "[v6]:port". Equals the target's authority where the target names
  // one (for CONNECT the port may be missing here). Empty only in HTTP/1.0.
  std::string_view host;
  bool expect_continue = false;  // the client waits for 100 before it sends the body

  std::string_view path() const;   // "/" when an absolute target has none; empty for CONNECT
  std::string_view query() const;  // behind the first '?', which is not part of it
  void clear();
};

struct ResponseHead : Head {
  int status = 0;           // 100 to 599
  std::string_view reason;  // may be empty
  void clear();
};

// What one attempt found.
struct HeadParse {
  enum class State : std::uint8_t { kNeedMore, kDone, kRefused } state = State::kNeedMore;
  std::size_t head_bytes = 0;  // kDone: bytes of the head including the empty line
  int status = 0;              // kRefused: what to answer; 502 for every response
  const char* reason = "";     // kRefused: a static sentence that names what is wrong
};

// Reads the head at the start of `buffer`. `scanned` remembers how far earlier attempts looked, so
// that a head that trickles in costs O(n) in all; start with 0, reset per message. The buffer may
// move between attempts; bytes already shown may not change. `out` holds values only after kDone.
//
// A complete line with bad syntax is refused at once, however much is missing behind it. What needs
// several fields to judge (Host, framing, field count) is refused when the head is complete. One
// empty line before a request is skipped, a second one is refused. A head that cannot end within
// limits.bytes is refused as soon as that is certain, so a buffer of that size never fills up
// without an answer.
HeadParse parse_request_head(std::string_view buffer, std::size_t& scanned,
                             const HeadLimits& limits, RequestHead& out);

// `request_method` decides whether a body may follow: none after HEAD, 1xx, 204, 304, and CONNECT
// with 2xx.
HeadParse parse_response_head(std::string_view buffer, std::size_t& scanned,
                              const HeadLimits& limits, std::string_view request_method,
                              ResponseHead& out);

// For writers: what does not pass would let its author add fields or messages of his own.
bool is_token(std::string_view text);
bool is_field_value(std::string_view text);

// Appends "name: value\r\n". CHECKs that both are legal: ask first about anything from outside.
void append_field(std::string& out, std::string_view name, std::string_view value);

// "Not Found" for 404; empty for a status without a registered phrase.
std::string_view reason_phrase(int status);

}  // namespace pons::http
