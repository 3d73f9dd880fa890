#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/result.h"

namespace pons::http {

// Server-sent events (WHATWG HTML, section 9.2) without I/O.

struct ServerEvent {
  std::string id;     // empty: none
  std::string event;  // empty: the default type, which browsers call "message"
  std::string data;   // lines are separated by LF
};

// Appends the event in wire form. CR, LF and NUL in id and event are refused and leave `out` as it
// was. Data is split at CRLF, CR and LF, so it cannot forge a field; its reader sees each as LF. An
// event without data is still delivered.
Result<void> append_server_event(std::string& out, const ServerEvent& event);

// A comment: resets idle timers on the way and reaches no one.
inline constexpr std::string_view kEventStreamKeepAlive = ": keep-alive\n\n";

// Reads a stream that anyone may have written. Unknown fields and comments are skipped; bytes that
// are not UTF-8 pass through. An event that the stream does not complete is never delivered.
class EventStreamParser {
 public:
  // Bounds what is held of one event together with the line being read.
  explicit EventStreamParser(std::size_t event_bytes_max = std::size_t{1} << 20);

  // Calls `sink` for each event that the bytes complete, at any cut. An event's id is the last one
  // seen, as in browsers. An error (event too large) is final: every later call returns it too.
  // `sink` must not call the parser.
  Result<void> feed(std::string_view bytes, const std::function<void(const ServerEvent&)>& sink);

  // What to send as Last-Event-ID when connecting again: of the last complete event.
  const std::string& last_event_id() const { return last_event_id_; }

  // How long the server asks to wait before connecting again; at most kRetryMax.
  std::optional<std::chrono::milliseconds> retry() const { return retry_; }
  static constexpr std::chrono::milliseconds kRetryMax = std::chrono::hours(24);

 private:
  using Sink = std::function<void(const ServerEvent&)>;

  bool fits(std::size_t line_size) const;
  void take_line(std::string_view line, const Sink& sink);
  void take_field(std::string_view name, std::string_view value);
  void dispatch(const Sink& sink);

  std::size_t event_bytes_max_;
  std::string line_;     // the beginning of a line whose end has not arrived
  ServerEvent pending_;  // data carries one LF after each line; id outlives the event
  std::string last_event_id_;
  std::optional<std::chrono::milliseconds> retry_;
  bool first_line_ = true;  // a byte order mark may stand here
  bool after_cr_ = false;   // an LF that comes now belongs to the line that is done
  bool too_large_ = false;
};

// Last-Event-ID as a sequence number, for streams whose ids are numbers: nothing when the header is
// absent, an Error when it is not a plain decimal.
Result<std::optional<std::uint64_t>> parse_last_event_id(std::optional<std::string_view> header);

}  // namespace pons::http
