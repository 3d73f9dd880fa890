#include "pons/http/event_stream.h"

#include <algorithm>

#include <fmt/format.h>

#include "pons/base/text.h"

namespace pons::http {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kLineEnds = "\r\n";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Removes one line and its end (CRLF, CR or LF) from the front of `text`. The last line has none.
std::optional<std::string_view> take_ended_line(std::string_view& text) {
  const std::size_t end = text.find_first_of(kLineEnds);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(text.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  return line;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\n");
}

}  // namespace

Result<void> append_server_event(std::string& out, const ServerEvent& event) {
  constexpr std::string_view kForbidden = "\r\n\0"sv;
  if (event.id.find_first_of(kForbidden) != std::string::npos)
    return make_error(ErrorCode::kInvalid, "write server-sent event",
                      "the id holds a line break or NUL");
  if (event.event.find_first_of(kForbidden) != std::string::npos)
    return make_error(ErrorCode::kInvalid, "write server-sent event",
                      "the event type holds a line break or NUL");

  if (!event.id.empty()) append_field(out, "id", event.id);
  if (!event.event.empty()) append_field(out, "event", event.event);
  std::string_view data = event.data;
  while (const auto line = take_ended_line(data)) append_field(out, "data", *line);
  append_field(out, "data", data);
  out += '\n';
  return {};
}

EventStreamParser::EventStreamParser(std::size_t event_bytes_max)
    : event_bytes_max_(event_bytes_max) {}

Result<void> EventStreamParser::feed(std::string_view bytes, const Sink& sink) {
  while (!too_large_ && !bytes.empty()) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const std::size_t end = bytes.find_first_of(kLineEnds);
    const std::string_view piece = bytes.substr(0, end);
    too_large_ = !fits(line_.size() + piece.size());
    if (too_large_) break;
    if (end == std::string_view::npos) {
      line_ += piece;
      return {};
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {  // the whole line is at hand: no copy
      take_line(piece, sink);
    } else {
      line_ += piece;
      take_line(line_, sink);
      line_.clear();
    }
  }
  if (!too_large_) return {};
  return make_error(ErrorCode::kLimit, "read server-sent events",
                    fmt::format("an event is larger than {}", human_bytes(event_bytes_max_)));
}

// Each field adds less to the pending event than its line is long, so a line that fits leaves an
// event that fits.
bool EventStreamParser::fits(std::size_t line_size) const {
  return line_size <= event_bytes_max_ - pending_.data.size() - pending_.event.size();
}

void EventStreamParser::take_line(std::string_view line, const Sink& sink) {
  if (first_line_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  first_line_ = false;
  if (line.empty()) return dispatch(sink);
  const std::size_t colon = line.find(':');
  if (colon == 0) return;  // a comment
  std::string_view value = colon == std::string_view::npos ? ""sv : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  take_field(line.substr(0, colon), value);
}

void EventStreamParser::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    pending_.data.append(value).append("\n");
  } else if (name == "event") {
    pending_.event = value;
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) pending_.id = value;
  } else if (name == "retry") {
    if (const auto wait = parse_decimal(value))
      retry_ = std::chrono::milliseconds(
          std::min<std::uint64_t>(*wait, static_cast<std::uint64_t>(kRetryMax.count())));
  }
}

void EventStreamParser::dispatch(const Sink& sink) {
  last_event_id_ = pending_.id;
  if (!pending_.data.empty()) {
    pending_.data.pop_back();
    sink(pending_);
  }
  pending_.data.clear();
  pending_.event.clear();
}

Result<std::optional<std::uint64_t>> parse_last_event_id(std::optional<std::string_view> header) {
  if (!header) return std::nullopt;
  const auto number = parse_decimal(*header);
  if (!number)
    return make_error(ErrorCode::kInvalid, "read Last-Event-ID",
                      "the header must be the decimal id of an event of this stream");
  return number;
}

}  // namespace pons::http
