#include "field_notes.h"

#include <cstddef>
#include <limits>

#include "authority.h"
#include "pons/base/text.h"

namespace pons::http {
namespace {

std::string_view trim_spaces(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// For names of the length of `lower`, which is letters and '-'. No other token byte becomes one of
// these when bit 0x20 is set, so this equals equal_ignoring_case without a branch per byte.
template <std::size_t kSize>
bool is_named(std::string_view name, const char (&lower)[kSize]) {
  const auto difference = [&](std::size_t i) { return (name[i] | 0x20) ^ lower[i]; };
  if (difference(0) != 0) return false;
  int differences = 0;
  for (std::size_t i = 1; i + 1 < kSize; ++i) differences |= difference(i);
  return differences == 0;
}

// RFC 9110 section 7.2: Host repeats the authority that the target names. Two different answers to
// "for whom is this" would let a policy check one and a connection use the other.
Refusal settle_target_authority(RequestHead& out) {
  if (out.target.starts_with('/') || out.target == "*") return {};
  std::string_view authority = out.target;
  bool same = false;
  if (out.method == "CONNECT") {
    // Some clients leave the port out of Host.
    const auto parsed = parse_authority(authority);
    same = parsed && equal_ignoring_case(out.host, parsed->host);
  } else if (const auto absolute = split_absolute_target(authority)) {
    authority = absolute->authority;
  }
  if (out.host.empty()) out.host = authority;  // HTTP/1.0 without Host
  if (same || equal_ignoring_case(out.host, authority)) return {};
  return {400, "Host differs from the authority in the request target"};
}

}  // namespace

// Length and first letter leave at most one candidate, so a field that means nothing here costs one
// jump and one comparison.
void FieldNotes::add(const Field& field) {
  const std::string_view name = field.name;
  switch (name.size()) {
    case 4:
      if (is_named(name, "host")) host_.add(field.value);
      break;
    case 6:
      if (is_named(name, "expect")) {
        const bool known = equal_ignoring_case(field.value, "100-continue");
        (known ? expect_continue_ : unknown_expectation_) = true;
      }
      break;
    case 7:
      if (is_named(name, "upgrade")) upgrade_field_ = true;
      break;
    case 10:
      if (is_named(name, "connection")) add_connection(field.value);
      break;
    case 14:
      if (is_named(name, "content-length")) content_length_.add(field.value);
      break;
    case 17:
      if (is_named(name, "transfer-encoding")) transfer_encoding_.add(field.value);
      break;
    default:
      break;
  }
}

// RFC 9110 section 5.6.1: empty list elements are ignored.
void FieldNotes::add_connection(std::string_view list) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto option = trim_spaces(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (option.empty()) continue;
    if (equal_ignoring_case(option, "keep-alive")) {
      keep_alive_ = true;
    } else if (equal_ignoring_case(option, "close")) {
      close_ = true;
    } else if (equal_ignoring_case(option, "upgrade")) {
      upgrade_option_ = true;
    } else if (!is_token(option)) {
      malformed_connection_ = true;
    }
  }
}

Refusal FieldNotes::settle_host(RequestHead& out) const {
  if (host_.count > 1) return {400, "more than one Host field"};
  if (host_.count == 0 && out.minor_version > 0) return {400, "HTTP/1.1 request without Host"};
  if (host_.count == 1 && !parse_authority(host_.value)) return {400, "Host is not a valid host"};
  out.host = host_.value;
  return settle_target_authority(out);
}

Refusal FieldNotes::settle_framing(Head& out) const {
  const bool coded = transfer_encoding_.count > 0;
  const bool sized = content_length_.count > 0;
  if (coded && sized) return {400, "both Content-Length and Transfer-Encoding"};
  if (coded) {
    if (out.minor_version == 0) return {400, "Transfer-Encoding in an HTTP/1.0 message"};
    const bool chunked = equal_ignoring_case(transfer_encoding_.value, "chunked");
    if (transfer_encoding_.count > 1 || !chunked)
      return {501, "Transfer-Encoding is not exactly 'chunked'"};
    out.framing = BodyFraming::kChunked;
  } else if (sized) {
    if (content_length_.count > 1) return {400, "more than one Content-Length field"};
    const auto length = parse_decimal(content_length_.value);
    if (!length || *length > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return {400, "Content-Length is not a number below 2^63"};
    out.framing = BodyFraming::kLength;
    out.content_length = *length;
  }
  return {};
}

// An Upgrade in HTTP/1.0 is ignored (RFC 9110 section 7.8).
void FieldNotes::settle_connection(Head& out) const {
  out.keep_alive = !close_ && (out.minor_version > 0 || keep_alive_);
  out.upgrade = out.minor_version > 0 && upgrade_option_ && upgrade_field_;
}

Refusal FieldNotes::settle_request(RequestHead& out) const {
  if (const auto refusal = settle_host(out)) return refusal;
  if (const auto refusal = settle_framing(out)) return refusal;
  if (malformed_connection_) return {400, "Connection is not a list of tokens"};
  if (unknown_expectation_) return {417, "Expect is not '100-continue'"};
  if (out.method == "CONNECT") {
    // What follows belongs to the tunnel. Old clients send a length of 0, which says the same.
    if (out.framing == BodyFraming::kChunked || out.content_length > 0)
      return {400, "CONNECT with a body"};
    out.framing = BodyFraming::kNone;
  }
  settle_connection(out);
  // HTTP/1.0 clients do not wait (RFC 9110 section 10.1.1), nor does one that has nothing to send.
  const bool has_body = out.framing == BodyFraming::kChunked || out.content_length > 0;
  out.expect_continue = expect_continue_ && out.minor_version > 0 && has_body;
  return {};
}

Refusal FieldNotes::settle_response(std::string_view request_method, ResponseHead& out) const {
  if (const auto refusal = settle_framing(out)) return {502, refusal.reason};
  if (malformed_connection_) return {502, "Connection is not a list of tokens"};
  settle_connection(out);
  const bool never_has_body = out.status < 200 || out.status == 204;
  const bool tunnel = request_method == "CONNECT" && out.status / 100 == 2;
  if (never_has_body || tunnel || out.status == 304 || request_method == "HEAD") {
    // A server that announces a body where none can be may still send it: what follows on this
    // connection cannot be trusted to be a response.
    if (never_has_body && (out.framing == BodyFraming::kChunked || out.content_length > 0))
      out.keep_alive = false;
    out.framing = BodyFraming::kNone;
    out.content_length = 0;
  } else if (out.framing == BodyFraming::kNone) {
    out.framing = BodyFraming::kUntilClose;
    out.keep_alive = false;
  }
  return {};
}

}  // namespace pons::http
