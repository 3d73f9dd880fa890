#include "line_reader.h"

#include <algorithm>
#include <cstring>

#include "authority.h"
#include "octets.h"

namespace pons::http {
namespace {

constexpr std::size_t kMaxMethodBytes = 32;
constexpr std::string_view kVersionPrefix = "HTTP/1.";
constexpr std::size_t kVersionBytes = kVersionPrefix.size() + 1;

constexpr Refusal kBareCarriageReturn{400, "CR without LF"};
constexpr Refusal kBareLineFeed{400, "LF without CR before it"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

// The 0 or 1 of HTTP/1.0 or HTTP/1.1.
Refusal read_version(std::string_view text, int& minor) {
  if (text == "HTTP/1.1" || text == "HTTP/1.0") {
    minor = text.back() - '0';
    return {};
  }
  const bool other_version = text.size() == kVersionBytes && text.starts_with("HTTP/") &&
                             is_digit(text[5]) && text[6] == '.' && is_digit(text[7]);
  if (other_version) return {505, "HTTP version is neither 1.0 nor 1.1"};
  return {400, "request line does not end in an HTTP version behind one space"};
}

Refusal check_target_form(std::string_view method, std::string_view target) {
  if (method == "CONNECT") {
    const auto authority = parse_authority(target);
    if (!authority || authority->port.empty()) return {400, "CONNECT target is not host:port"};
    return {};
  }
  if (target.starts_with('/')) return {};
  if (target == "*") {
    if (method == "OPTIONS") return {};
    return {400, "request target '*' is for OPTIONS only"};
  }
  const auto absolute = split_absolute_target(target);
  if (!absolute) return {400, "request target is neither a path nor an http or https URL"};
  if (!parse_authority(absolute->authority)) return {400, "request target has no valid host"};
  return {};
}

// `line` comes without its LF.
Refusal read_request_line(std::string_view line, const HeadLimits& limits, RequestHead& out) {
  const char* const end = line.data() + line.size();
  const char* at = skip_octets(line.data(), end, kTokenOctet);
  out.method = between(line.data(), at);
  if (line == "\r" || line.empty()) return {400, "empty line where a request line must be"};
  if (out.method.empty() || at == end || *at != ' ')
    return {400, "method is not a token with one space behind it"};
  if (out.method.size() > kMaxMethodBytes) return {501, "method is too long"};

  const char* const target = ++at;
  at = skip_octets(at, end, kTargetOctet);
  out.target = between(target, at);
  if (out.target.size() > limits.target_bytes) return {414, "request target is too long"};
  if (out.target.empty() || at == end || *at != ' ')
    return {400, "request target is not visible ASCII with one space behind it"};

  auto version = between(at + 1, end);
  if (!version.ends_with('\r')) return kBareLineFeed;
  version.remove_suffix(1);
  if (const auto refusal = read_version(version, out.minor_version)) return refusal;
  return check_target_form(out.method, out.target);
}

// `at` is where a field name stopped without a colon behind it.
Refusal explain_bad_name(const char* begin, const char* at) {
  const bool space = *at == ' ' || *at == '\t';
  if (*at == '\n') return kBareLineFeed;
  if (space && at == begin) return {400, "field continued on a second line"};
  if (space) return {400, "space between field name and colon"};
  return {400, "field name is not a token with a colon behind it"};
}

}  // namespace

std::size_t request_line_limit(const HeadLimits& limits) {
  const std::size_t rest = kMaxMethodBytes + 1 + 1 + kVersionBytes + 2;
  return rest + std::min(limits.target_bytes, limits.bytes);
}

LineReader::Outcome LineReader::refuse(Refusal refusal) {
  if (std::memchr(at_, '\n', static_cast<std::size_t>(end_ - at_)) == nullptr)
    return Outcome::kIncomplete;
  refusal_ = refusal;
  return Outcome::kRefused;
}

LineReader::Outcome LineReader::finish_line(const char* at, Refusal fault) {
  if (at == end_) return Outcome::kIncomplete;
  if (*at != '\r') return refuse(*at == '\n' ? kBareLineFeed : fault);
  if (at + 1 == end_) return Outcome::kIncomplete;
  if (at[1] != '\n') return refuse(kBareCarriageReturn);
  at_ = at + 2;
  return Outcome::kLine;
}

LineReader::Outcome LineReader::read_start_line(const HeadLimits& limits, RequestHead& out) {
  const std::size_t line_limit = request_line_limit(limits);
  const auto available = between(at_, end_).substr(0, line_limit);
  const auto newline = available.find('\n');
  if (newline != std::string_view::npos) {
    refusal_ = read_request_line(available.substr(0, newline), limits, out);
  } else if (available.size() == line_limit) {
    refusal_ = {414, "request line is too long"};
  } else {
    return Outcome::kIncomplete;
  }
  if (refusal_) return Outcome::kRefused;
  at_ += newline + 1;
  return Outcome::kLine;
}

// The SP behind the status may be missing together with the reason: servers do so, and no reading
// of it differs.
LineReader::Outcome LineReader::read_start_line(const HeadLimits&, ResponseHead& out) {
  constexpr std::size_t kStatusEnd = kVersionBytes + 1 + 3;
  constexpr Refusal kMalformed{502,
                               "response does not begin with HTTP/1.x and a status of 3 digits"};
  const auto line = between(at_, end_);
  if (line.size() <= kStatusEnd) return refuse(kMalformed);
  const char minor = line[kVersionPrefix.size()];
  const char* const digits = line.data() + kVersionBytes + 1;
  if (!line.starts_with(kVersionPrefix) || (minor != '0' && minor != '1') || digits[-1] != ' ' ||
      digits[0] < '1' || digits[0] > '5' || !is_digit(digits[1]) || !is_digit(digits[2]))
    return refuse(kMalformed);
  out.minor_version = minor - '0';
  out.status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');

  const char* at = line.data() + kStatusEnd;
  if (*at != ' ') return finish_line(at, kMalformed);
  const char* const reason = ++at;
  at = skip_value(at, end_);
  out.reason = between(reason, at);
  return finish_line(at, {502, "control character in the reason phrase"});
}

LineReader::Outcome LineReader::read_field_line(Field& out) {
  const char* at = skip_octets(at_, end_, kTokenOctet);
  if (at == end_) return Outcome::kIncomplete;
  if (*at != ':' || at == at_) {
    if (*at != '\r' || at != at_) return refuse(explain_bad_name(at_, at));
    const auto outcome = finish_line(at, {});
    return outcome == Outcome::kLine ? Outcome::kEndOfHead : outcome;
  }
  out.name = between(at_, at);
  ++at;
  while (at != end_ && (*at == ' ' || *at == '\t')) ++at;
  const char* const value = at;
  at = skip_value(at, end_);
  const char* value_end = at;
  while (value_end != value && (value_end[-1] == ' ' || value_end[-1] == '\t')) --value_end;
  out.value = between(value, value_end);
  return finish_line(at, {400, "control character in a field value"});
}

}  // namespace pons::http
