#include "http2_fields.h"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "authority.h"
#include "octets.h"
#include "pons/base/check.h"
#include "pons/base/text.h"

namespace pons::http {

namespace {

constexpr std::size_t kFieldOverhead = 32;  // RFC 9113, 6.5.2: how the size of a list is counted

bool is_target(std::string_view text) {
  const char* const end = text.data() + text.size();
  return skip_octets(text.data(), end, kTargetOctet) == end;
}

// nghttp2 has made sure that each pseudo field is there at most once, and first.
struct PseudoFields {
  std::string_view method, scheme, authority, path;

  void take(const Field& field) {
    if (field.name == ":method") method = field.value;
    if (field.name == ":scheme") scheme = field.value;
    if (field.name == ":authority") authority = field.value;
    if (field.name == ":path") path = field.value;
  }
};

Refusal settle_pseudo_fields(const PseudoFields& pseudo, std::string_view scheme,
                             const HeadLimits& limits) {
  if (!is_token(pseudo.method)) return {400, ":method is not a token"};
  if (pseudo.method == "CONNECT") return {501, "CONNECT is not served over HTTP/2"};
  if (pseudo.scheme != scheme) return {400, ":scheme does not fit the connection"};
  if (!parse_authority(pseudo.authority)) return {400, ":authority is not a valid host"};
  if (pseudo.path.size() > limits.target_bytes) return {414, ":path is too long"};
  const bool is_whole_server = pseudo.path == "*" && pseudo.method == "OPTIONS";
  if (!is_whole_server && !pseudo.path.starts_with('/')) return {400, ":path is not a path"};
  if (!is_target(pseudo.path)) return {400, ":path has a byte that may not stand there"};
  return {};
}

Error illegal(std::string_view what) {
  return make_error(ErrorCode::kInvalid, "send request",
                    fmt::format("the {} is not legal in HTTP/2", what));
}

}  // namespace

bool FieldBlock::add(std::string_view name, std::string_view value, const HeadLimits& limits) {
  const std::size_t list_bytes =
      text_.size() + name.size() + value.size() + (sizes_.size() + 1) * kFieldOverhead;
  if (list_bytes > limits.bytes || sizes_.size() >= limits.fields) return false;
  text_ += name;
  text_ += value;
  sizes_.push_back(
      {static_cast<std::uint32_t>(name.size()), static_cast<std::uint32_t>(value.size())});
  return true;
}

std::vector<Field> FieldBlock::fields() const {
  std::vector<Field> fields;
  fields.reserve(sizes_.size());
  std::string_view rest = text_;
  for (const Size& size : sizes_) {
    fields.push_back({rest.substr(0, size.name), rest.substr(size.name, size.value)});
    rest.remove_prefix(size.name + size.value);
  }
  return fields;
}

OwnedFields FieldBlock::copy() const {
  OwnedFields copied;
  for (const Field& field : fields()) copied.emplace_back(field.name, field.value);
  return copied;
}

void FieldBlock::clear() {
  text_.clear();
  sizes_.clear();
}

void FieldsToSend::add(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));  // only ever read
  };
  list_.push_back({.name = bytes(name),
                   .value = bytes(value),
                   .namelen = name.size(),
                   .valuelen = value.size(),
                   .flags = NGHTTP2_NV_FLAG_NONE});
}

void FieldsToSend::add_lowered(const std::string& name, const std::string& value) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (std::ranges::none_of(name, is_upper)) return add(name, value);
  auto lowered = std::make_unique<std::string>(name);
  for (char& c : *lowered)
    if (is_upper(c)) c = static_cast<char>(c | 0x20);
  add(*lowered, value);
  lowered_.push_back(std::move(lowered));
}

bool is_connection_specific(std::string_view name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"connection", "keep-alive", "proxy-connection",
                                              "transfer-encoding", "upgrade", "http2-settings"},
      [name](std::string_view known) { return equal_ignoring_case(name, known); });
}

Refusal settle_http2_request(const FieldBlock& block, std::string_view scheme,
                             const HeadLimits& limits, bool is_whole, RequestHead& out) {
  out.clear();
  PseudoFields pseudo;
  FieldNotes notes;
  const std::vector<Field> fields = block.fields();
  for (const Field& field : fields)
    if (field.name.starts_with(':')) pseudo.take(field);
  for (const Field& field : fields) {
    if (field.name.starts_with(':')) continue;
    if (!is_token(field.name) || !is_field_value(field.value))
      return {400, "a field is not legal in HTTP"};
    if (is_connection_specific(field.name)) return {400, "a field of HTTP/1.1 connections"};
    if (field.name == "te" && field.value != "trailers") return {400, "TE is not 'trailers'"};
    // Two answers to "for whom is this" would let a policy check one and the server use the other.
    if (field.name == "host" && !equal_ignoring_case(field.value, pseudo.authority))
      return {400, "Host differs from :authority"};
    if (field.name != "host") notes.add(field);
    out.fields.push_back(field);
  }
  if (const auto refusal = settle_pseudo_fields(pseudo, scheme, limits)) return refusal;
  out.method = pseudo.method;
  out.target = pseudo.path;
  notes.add({"host", pseudo.authority});
  if (const auto refusal = notes.settle_request(out)) return refusal;
  if (!is_whole && out.framing == BodyFraming::kNone) {
    out.framing = BodyFraming::kChunked;
    out.expect_continue = out.find("expect").has_value();
  }
  return {};
}

Refusal settle_http2_response(const FieldBlock& block, std::string_view request_method,
                              bool is_whole, ResponseHead& out) {
  out.clear();
  FieldNotes notes;
  for (const Field& field : block.fields()) {
    if (field.name == ":status") {
      const auto status = parse_decimal(field.value);
      if (!status || *status < 100 || *status > 599) return {502, ":status is not a status"};
      out.status = static_cast<int>(*status);
    }
    if (field.name.starts_with(':')) continue;
    if (!is_token(field.name) || !is_field_value(field.value))
      return {502, "a field is not legal in HTTP"};
    if (is_connection_specific(field.name)) return {502, "a field of HTTP/1.1 connections"};
    notes.add(field);
    out.fields.push_back(field);
  }
  if (out.status == 0) return {502, ":status is missing"};
  if (const auto refusal = notes.settle_response(request_method, out)) return refusal;
  out.keep_alive = true;
  if (out.framing == BodyFraming::kUntilClose)
    out.framing = is_whole ? BodyFraming::kNone : BodyFraming::kChunked;
  return {};
}

bool are_trailers_legal(const OwnedFields& trailers) {
  return std::ranges::all_of(trailers, [](const auto& field) {
    const auto& [name, value] = field;
    return is_token(name) && is_field_value(value) && !is_connection_specific(name) &&
           name != "host" && name != "content-length" && name != "te";
  });
}

Result<void> list_request_fields(const ClientRequest& request, std::string_view host,
                                 std::string_view scheme, std::string& length, FieldsToSend& out) {
  if (!is_token(request.method) || request.method == "CONNECT") return illegal("method");
  const bool is_whole_server = request.target == "*" && request.method == "OPTIONS";
  if ((!is_whole_server && !request.target.starts_with('/')) || !is_target(request.target))
    return illegal("target");
  if (!parse_authority(host)) return illegal("host");
  out.add(":method", request.method);
  out.add(":scheme", scheme);
  out.add(":authority", host);
  out.add(":path", request.target);
  for (const auto& [name, value] : request.fields) {
    if (!is_token(name) || !is_field_value(value) || is_connection_specific(name))
      return illegal("header field " + name);
    if (equal_ignoring_case(name, "content-length"))
      return make_error(ErrorCode::kInvalid, "send request", name + " is set by the body alone");
    if (equal_ignoring_case(name, "te") && value != "trailers") return illegal("TE field");
    if (equal_ignoring_case(name, "host")) {
      if (!equal_ignoring_case(value, host)) return illegal("Host of another origin");
      continue;
    }
    out.add_lowered(name, value);
  }
  if (request.body_source) {
    if (request.body_bytes) length = fmt::format("{}", *request.body_bytes);
  } else if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD")) {
    length = fmt::format("{}", request.body.size());
  }
  if (!length.empty()) out.add("content-length", length);
  return {};
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

}  // namespace pons::http
