#include "pons/gateway/otlp_headers.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "pons/base/text.h"
#include "pons/http/head.h"
#include "pons/http/query.h"

namespace pons::gateway {

namespace {

constexpr std::size_t kFieldsMax = 16;
// Those that say how a request is made up are our own.
constexpr std::array<std::string_view, 7> kOwn = {
    "host",    "connection", "content-length", "content-type", "transfer-encoding",
    "upgrade", "expect"};

Error refuse(std::string message) {
  return make_error(ErrorCode::kInvalid, "read OTLP headers", std::move(message));
}

}  // namespace

Result<http::OwnedFields> read_otlp_headers(std::string_view text) {
  http::OwnedFields fields;
  for (const std::string_view piece : split(trim(text), ',')) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos)
      return refuse("the header fields for the collector must be NAME=VALUE,NAME=VALUE");
    const std::string_view name = trim(piece.substr(0, equals));
    auto value = http::percent_decode(trim(piece.substr(equals + 1)));
    if (!http::is_token(name)) return refuse("a header field for the collector has no proper name");
    if (!value || !http::is_field_value(*value))
      return refuse(fmt::format("the header field {} for the collector has no proper value", name));
    if (std::ranges::any_of(kOwn, [&](auto own) { return equal_ignoring_case(own, name); }))
      return refuse(fmt::format("the header field {} is not yours to set", name));
    fields.emplace_back(name, std::move(*value));
    if (fields.size() > kFieldsMax) return refuse("too many header fields for the collector");
  }
  return fields;
}

}  // namespace pons::gateway
