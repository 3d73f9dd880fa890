#include "origins.h"

#include <algorithm>

#include "pons/base/text.h"

namespace pons::front {

namespace {

constexpr std::size_t kNamesMax = 64;

// The names that were asked about; nothing where they are none.
std::optional<std::string> asked_fields(const http::RequestHead& head) {
  const auto asked = head.find("Access-Control-Request-Headers");
  if (!asked || asked->empty()) return std::nullopt;
  const auto names = split(*asked, ',');
  if (names.size() > kNamesMax ||
      !std::ranges::all_of(names, [](std::string_view name) { return http::is_token(trim(name)); }))
    return std::nullopt;
  return std::string(*asked);
}

}  // namespace

Origins::Origins(std::string_view allowed) {
  if (allowed.empty()) return;
  for (const std::string_view origin : split(allowed, ' ')) allowed_.emplace_back(origin);
}

std::optional<std::string> Origins::find(const http::RequestHead& head) const {
  if (allowed_.empty()) return std::nullopt;
  const auto origin = head.find("Origin");
  const auto is_origin = [](const http::Field& field) {
    return equal_ignoring_case(field.name, "Origin");
  };
  if (!origin || std::ranges::count_if(head.fields, is_origin) != 1) return std::nullopt;
  const auto found = std::ranges::find(allowed_, *origin);
  return found == allowed_.end() ? std::nullopt : std::optional(*found);
}

bool is_preflight(const http::RequestHead& head) {
  return head.method == "OPTIONS" && head.find("Origin") &&
         head.find("Access-Control-Request-Method");
}

http::Response preflight_answer(const http::RequestHead& head) {
  http::Response response{.status = 204, .content_type = "", .body = ""};
  response.fields = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"},
                     {"Access-Control-Max-Age", "600"},
                     {"Vary", "Access-Control-Request-Headers"}};
  if (auto fields = asked_fields(head))
    response.fields.emplace_back("Access-Control-Allow-Headers", *std::move(fields));
  return response;
}

void allow_origin(const std::string& origin, http::Response& response) {
  response.fields.emplace_back("Access-Control-Allow-Origin", origin);
  response.fields.emplace_back("Access-Control-Expose-Headers",
                               "X-Request-Id, Retry-After, X-Next-Token, X-Total-Running");
  response.fields.emplace_back("Vary", "Origin");
}

}  // namespace pons::front
