#include "pons/http/head.h"

#include <algorithm>
#include <cstring>

#include "authority.h"
#include "field_notes.h"
#include "line_reader.h"
#include "octets.h"
#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::http {
namespace {

using Outcome = LineReader::Outcome;

HeadParse refused(const Refusal& refusal) {
  return {.state = HeadParse::State::kRefused, .status = refusal.status, .reason = refusal.reason};
}

void clear_head(Head& head) {
  head.minor_version = 1;
  head.fields.clear();
  head.framing = BodyFraming::kNone;
  head.content_length = 0;
  head.keep_alive = true;
  head.upgrade = false;
}

// What differs between the two kinds of message.
struct RequestRules {
  using Message = RequestHead;
  static constexpr int kTooLarge = 431;

  // A TLS hello on a plain port ends here instead of at a deadline.
  static Refusal check_first_byte(char c) {
    if (c == '\r' || is_octet(c, kTokenOctet)) return {};
    return {400, "does not begin with a method"};
  }
  // RFC 9112 section 2.2: clients of old end a body with a CRLF that no length counts.
  static std::size_t start(std::string_view window) { return window.starts_with("\r\n") ? 2 : 0; }
  static std::size_t start_line_limit(const HeadLimits& limits) {
    return request_line_limit(limits);
  }
  static Refusal restate(const Refusal& refusal) { return refusal; }
  Refusal settle(const FieldNotes& notes, RequestHead& out) const {
    return notes.settle_request(out);
  }
};

struct ResponseRules {
  using Message = ResponseHead;
  static constexpr int kTooLarge = 502;

  static Refusal check_first_byte(char c) {
    if (c == 'H') return {};
    return {502, "does not begin with HTTP/1.x"};
  }
  static std::size_t start(std::string_view) { return 0; }
  static std::size_t start_line_limit(const HeadLimits& limits) { return limits.bytes; }
  static Refusal restate(const Refusal& refusal) { return {502, refusal.reason}; }
  Refusal settle(const FieldNotes& notes, ResponseHead& out) const {
    return notes.settle_response(request_method, out);
  }

  std::string_view request_method;
};

// Judges the lines that ended since the last attempt, each once. Nothing about them is kept: the
// buffer may be elsewhere next time, so a complete head is read again as a whole.
template <class Rules>
Outcome check_new_lines(std::string_view window, std::size_t scanned, const HeadLimits& limits,
                        typename Rules::Message& scratch, Refusal& refusal) {
  const std::size_t start = Rules::start(window);
  const std::size_t start_line_end = start + Rules::start_line_limit(limits);
  const bool passed_limit = scanned < start_line_end && window.size() >= start_line_end;
  const std::size_t newline = window.find('\n', scanned);
  if (newline == std::string_view::npos && !passed_limit) return Outcome::kIncomplete;

  // npos + 1 is 0: without an earlier LF the line begins where the message does.
  const std::size_t line = window.rfind('\n', newline - 1) + 1;
  LineReader reader(window, std::max(line, start));
  Outcome outcome = Outcome::kLine;
  if (line <= start) outcome = reader.read_start_line(limits, scratch);
  for (Field field; outcome == Outcome::kLine;) outcome = reader.read_field_line(field);
  refusal = reader.refusal();
  return outcome;
}

// Reads the whole head into `out`.
template <class Rules>
Outcome read_head(std::string_view window, const HeadLimits& limits, const Rules& rules,
                  typename Rules::Message& out, std::size_t& head_bytes, Refusal& refusal) {
  LineReader reader(window, Rules::start(window));
  FieldNotes notes;
  bool too_many_fields = false;
  Outcome outcome = reader.read_start_line(limits, out);
  while (outcome == Outcome::kLine) {
    Field field;
    outcome = reader.read_field_line(field);
    if (outcome != Outcome::kLine) break;
    if (out.fields.size() >= limits.fields) {
      too_many_fields = true;
      continue;
    }
    out.fields.push_back(field);
    notes.add(field);
  }
  refusal = reader.refusal();
  if (outcome != Outcome::kEndOfHead) return outcome;
  head_bytes = reader.position();
  refusal =
      too_many_fields ? Refusal{Rules::kTooLarge, "too many fields"} : rules.settle(notes, out);
  return refusal ? Outcome::kRefused : Outcome::kEndOfHead;
}

template <class Rules>
HeadParse parse_head(std::string_view buffer, std::size_t& scanned, const HeadLimits& limits,
                     const Rules& rules, typename Rules::Message& out) {
  CHECK(scanned <= buffer.size());  // the caller forgot to reset it
  out.clear();
  if (buffer.empty()) return {};
  const auto window = buffer.substr(0, limits.bytes);
  Refusal refusal;
  Outcome outcome = Outcome::kEndOfHead;
  std::size_t head_bytes = 0;
  if (scanned > 0) {
    outcome =
        check_new_lines<Rules>(window, std::min(scanned, window.size()), limits, out, refusal);
  } else if ((refusal = Rules::check_first_byte(buffer[0]))) {
    return refused(refusal);
  }
  if (outcome == Outcome::kEndOfHead)
    outcome = read_head(window, limits, rules, out, head_bytes, refusal);
  if (outcome == Outcome::kEndOfHead)
    return {.state = HeadParse::State::kDone, .head_bytes = head_bytes};

  out.clear();  // no view into a buffer that may move
  scanned = buffer.size();
  if (outcome == Outcome::kRefused) return refused(Rules::restate(refusal));
  if (buffer.size() >= limits.bytes) return refused({Rules::kTooLarge, "head is too large"});
  return {};
}

}  // namespace

std::optional<std::string_view> Head::find(std::string_view name) const {
  for (const Field& field : fields)
    if (field.name.size() == name.size() && equal_ignoring_case(field.name, name))
      return field.value;
  return std::nullopt;
}

std::string_view RequestHead::path() const {
  if (method == "CONNECT") return {};
  auto path_and_query = target;
  if (const auto absolute = split_absolute_target(target))
    path_and_query = absolute->path_and_query;
  const auto path = path_and_query.substr(0, path_and_query.find('?'));
  return path.empty() ? "/" : path;
}

std::string_view RequestHead::query() const {
  const auto mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

void RequestHead::clear() {
  clear_head(*this);
  method = target = host = {};
  expect_continue = false;
}

void ResponseHead::clear() {
  clear_head(*this);
  status = 0;
  reason = {};
}

HeadParse parse_request_head(std::string_view buffer, std::size_t& scanned,
                             const HeadLimits& limits, RequestHead& out) {
  return parse_head(buffer, scanned, limits, RequestRules{}, out);
}

HeadParse parse_response_head(std::string_view buffer, std::size_t& scanned,
                              const HeadLimits& limits, std::string_view request_method,
                              ResponseHead& out) {
  return parse_head(buffer, scanned, limits, ResponseRules{.request_method = request_method}, out);
}

bool is_token(std::string_view text) {
  const char* const end = text.data() + text.size();
  return !text.empty() && skip_octets(text.data(), end, kTokenOctet) == end;
}

bool is_field_value(std::string_view text) {
  const char* const end = text.data() + text.size();
  return skip_value(text.data(), end) == end;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  CHECK(is_token(name));
  CHECK(is_field_value(value));
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace pons::http
