#include "route_words.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/sandbox/wire.h"

namespace pons::warden {

namespace {

constexpr std::size_t kJsonBytesMax = 24ULL << 20;

Error wrong(std::string_view name, std::string_view what) {
  return make_error(ErrorCode::kInvalid, "read query", fmt::format("\"{}\" {}", name, what));
}

}  // namespace

Result<std::string> query_text(std::string_view query, std::string_view name) {
  return TRY(http::find_query(query, name)).value_or("");
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
