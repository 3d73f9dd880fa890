#include "egress_boundary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "pons/base/text.h"

namespace pons::brain {

namespace {

// What is wrong with the request itself is wrong with it the next time, too.
Error refusal_of(int status) {
  constexpr int kRequestTimeout = 408;
  constexpr int kTooManyRequests = 429;
  const bool is_final =
      status >= 400 && status < 500 && status != kRequestTimeout && status != kTooManyRequests;
  return make_error(is_final ? ErrorCode::kInvalid : ErrorCode::kUnavailable, "check for secrets",
                    fmt::format("egress cannot tell: it answers {}", status));
}

}  // namespace

EgressBoundary::EgressBoundary(linux::Loop& loop, http::Connector connector)
    : client_(loop, std::move(connector), "egress",
              {.first_byte_time = std::chrono::seconds(10), .idle_connections = 32}) {}

Task<Result<session::Redaction>> EgressBoundary::redact(Text text) {
  if (text.text.empty()) co_return session::Redaction{};
  constexpr std::size_t kWordBytes = 64;  // what stands for a text that is withheld
  const std::size_t bytes = text.text.size() + kWordBytes;
  std::string target = text.more ? "/redact?more=1" : "/redact?";
  if (!text.sandboxes.empty())
    target += fmt::format("&sandboxes={}", fmt::join(text.sandboxes, ","));
  if (target.size() > http::HeadLimits{}.target_bytes)
    co_return make_error(ErrorCode::kInvalid, "check for secrets",
                         "more sandboxes are named than egress looks at");
  CO_TRY(auto response,
         co_await client_.send({.method = "POST", .target = std::move(target), .body = text.text}));
  if (response.status() != 200) co_return refusal_of(response.status());
  CO_TRY(auto clean, co_await response.read_whole_body(bytes));
  session::Redaction redaction{.text = std::move(clean)};
  const auto held = parse_decimal(response.find("x-pons-held").value_or("0"));
  redaction.held = held ? *held : redaction.text.size();
  for (const std::string_view name : split(response.find("x-pons-redacted").value_or(""), ','))
    if (!name.empty()) redaction.redacted.emplace_back(name);
  if (redaction.redacted.empty() && redaction.text.empty()) redaction.text = std::move(text.text);
  co_return redaction;
}

}  // namespace pons::brain
