#include "route_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/sandbox/wire.h"

namespace pons::warden {

namespace {

constexpr std::size_t kJsonBytesMax = 24ULL << 20;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

Error wrong(std::string_view name, std::string_view what) {
  return make_error(ErrorCode::kInvalid, "read query", fmt::format("\"{}\" {}", name, what));
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3 || digit_of(text[i + 1]) < 0 || digit_of(text[i + 2]) < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2])));
    i += 2;
  }
  return bytes;
}

Result<std::string> query_text(std::string_view query, std::string_view name) {
  for (const std::string_view pair : split(query, '&')) {
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) != name || equals == std::string_view::npos) continue;
    auto value = percent_decode(pair.substr(equals + 1));
    if (!value) return wrong(name, "is not percent-encoded as it should be");
    return std::move(*value);
  }
  return std::string();
}

Result<std::uint64_t> query_number(std::string_view query, std::string_view name,
                                   std::uint64_t otherwise) {
  const std::string text = TRY(query_text(query, name));
  if (text.empty()) return otherwise;
  const auto number = parse_decimal(text);
  if (!number) return wrong(name, "is no number");
  return *number;
}

Result<bool> query_flag(std::string_view query, std::string_view name, bool otherwise) {
  const std::string text = TRY(query_text(query, name));
  if (text.empty()) return otherwise;
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  return wrong(name, "is neither true nor false");
}

Task<Result<Json>> read_json_body(http::Exchange& exchange) {
  CO_TRY(const auto text, co_await exchange.read_whole_body(kJsonBytesMax));
  if (text.empty()) co_return Json::object();
  co_return parse_json(text, {.depth = 16, .bytes = kJsonBytesMax});
}

void respond_json(http::Exchange& exchange, int status, const Json& body) {
  exchange.respond({.status = status, .body = dump_json(body) + "\n"});
}

void respond_empty(http::Exchange& exchange) {
  exchange.respond({.status = 204, .content_type = "", .body = ""});
}

void respond_error(http::Exchange& exchange, const Error& error) {
  exchange.respond(http::error_response(error));
}

}  // namespace pons::warden
