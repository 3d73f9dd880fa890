#include "gateway_model.h"

#include <fmt/format.h>

#include "answer_reader.h"
#include "gateway_usage.h"
#include "pons/base/text.h"
#include "pons/http/error_status.h"
#include "pons/http/query.h"
#include "pons/models/limits.h"
#include "pons/models/protocol.h"

namespace pons::brain {

namespace {

using models::Failing;
using session::Trouble;

// The gateway has limits of its own, and says something meanwhile.
constexpr http::ClientLimits kLimits{.first_byte_time = std::chrono::minutes(15),
                                     .idle_time = std::chrono::minutes(5),
                                     .idle_connections = 64};
constexpr std::size_t kErrorBytesMax = 64 * 1024;

Trouble trouble_of(Failing failing) {
  switch (failing) {
    case Failing::kContextLength:
    case Failing::kTooLarge:  // images are long, and few tokens
      return Trouble::kTooLong;
    case Failing::kBudget:
      return Trouble::kBudget;
    case Failing::kInvalidRequest:
    case Failing::kAuthentication:
    case Failing::kPermission:
    case Failing::kNotFound:
      return Trouble::kLasting;
    case Failing::kRateLimit:
    case Failing::kOverloaded:
    case Failing::kTimeout:
    case Failing::kUpstream:
      return Trouble::kPassing;
  }
  return Trouble::kPassing;
}

session::ModelFault fault_of(Failing failing) {
  if (failing == Failing::kRateLimit) return session::ModelFault::kRateLimited;
  if (failing == Failing::kOverloaded) return session::ModelFault::kOverloaded;
  return session::ModelFault::kOther;
}

// The gateway has it, wholly or in part, and knows alone what came of it.
session::NoAnswer passing(const Error& error) {
  return {.trouble = Trouble::kPassing, .message = error.describe(), .unpaid = true};
}

std::int64_t number_in(const http::ClientResponse& response, std::string_view field,
                       std::uint64_t most) {
  const auto text = response.find(field);
  const auto number = text ? parse_decimal(*text) : std::nullopt;
  return static_cast<std::int64_t>(std::min(number.value_or(0), most));
}

session::NoAnswer failure_of(const http::ClientResponse& response, std::string_view body) {
  const models::Failure failure =
      models::protocol_text(models::Protocol::kMessages).read_error(response.status(), body);
  session::NoAnswer none{.trouble = trouble_of(failure.kind),
                         .fault = fault_of(failure.kind),
                         .message = failure.message};
  // The protocol has no word of its own for it.
  if (response.find("x-pons-failure") == "budget") none.trouble = Trouble::kBudget;
  constexpr std::uint64_t kSecondsMax = 3'600;
  constexpr std::uint64_t kCostMax = 1'000'000'000'000'000;
  none.wait_ms = number_in(response, "retry-after", kSecondsMax) * 1'000;
  // Of what it cost, if anything, the gateway also knows the tokens.
  none.unpaid = number_in(response, "x-pons-cost-nano-usd", kCostMax) > 0;
  return none;
}

}  // namespace

GatewayModel::GatewayModel(linux::Loop& loop, http::Connector connector)
    : loop_(loop), client_(loop, std::move(connector), "gateway", kLimits) {}

Task<std::variant<session::Answer, session::NoAnswer>> GatewayModel::ask(
    session::Question question, const session::Listener& listener) {
  if (question.request.size() > models::kRequestBytesMax)
    co_return session::NoAnswer{
        .trouble = Trouble::kTooLong,
        .message = fmt::format("the conversation is larger than {}, which is what a model may be "
                               "sent at once",
                               human_bytes(models::kRequestBytesMax))};
  const TimePoint begun = loop_.now();
  std::int64_t first_ms = -1;
  const auto note_first = [&] {
    if (first_ms < 0)
      first_ms = std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - begun).count();
  };
  const session::Listener noting{.on_text =
                                     [&](std::string_view text) {
                                       note_first();
                                       listener.on_text(text);
                                     },
                                 .on_tool =
                                     [&](std::int64_t block, std::string_view tool) {
                                       note_first();
                                       listener.on_tool(block, tool);
                                     },
                                 .on_thinking = listener.on_thinking};
  auto response =
      co_await client_.send({.method = "POST",
                             .target = "/v1/messages",
                             .fields = {{"content-type", "application/json"},
                                        {"anthropic-version", "2023-06-01"},
                                        {"x-pons-project", question.project},
                                        {"x-pons-agent", http::percent_encode(question.agent)},
                                        {"x-pons-tell-cost", "1"},
                                        {"x-pons-question", question.id},
                                        {"x-session-id", question.session}},
                             .body = std::move(question.request)});
  if (!response) co_return passing(response.error());
  if (response->status() != 200) {
    const auto body = co_await response->read_whole_body(kErrorBytesMax);
    co_return failure_of(*response, body ? *body : "");
  }
  session::NoAnswer trouble;
  auto answer = co_await read_answer(*response, noting, trouble);
  if (!answer) co_return trouble;
  answer->first_ms = std::max<std::int64_t>(0, first_ms);
  co_return std::move(*answer);
}

Task<Result<session::Usage>> GatewayModel::end_question(std::string id) {
  CO_TRY(auto response,
         co_await client_.send(
             {.method = "POST", .target = "/questions/" + id + "/end", .fields = {}, .body = {}}));
  CO_TRY(const auto text, co_await response.read_whole_body(kErrorBytesMax));
  if (response.status() != 200)
    co_return http::error_of("ask for the cost of a question", response.status(), text);
  co_return read_gateway_usage(text);
}

Task<Result<session::Answer>> GatewayModel::read_answer(http::ClientResponse& response,
                                                        const session::Listener& listener,
                                                        session::NoAnswer& trouble) {
  AnswerReader reader(listener);
  const auto fail = [&](const Error& error) {
    trouble = passing(error);
    if (!reader.error_message().empty()) trouble.message = reader.error_message();
    trouble.fault = reader.fault();
    return error;
  };
  for (;;) {
    const auto piece = co_await response.read_body();
    if (!piece && !reader.is_whole()) co_return fail(piece.error());
    if (!piece || piece->empty()) break;
    if (const auto fed = reader.feed(*piece); !fed) co_return fail(fed.error());
  }
  if (reader.is_whole()) co_return reader.take();
  co_return fail(make_error(ErrorCode::kUnavailable, "read answer", "it broke off"));
}

}  // namespace pons::brain
