#include "client_side.h"

#include <utility>

#include <fmt/format.h>

namespace pons::gateway {

ClientSide::ClientSide(http::Exchange& exchange, models::Protocol protocol, std::string request_id)
    : exchange_(exchange),
      protocol_(protocol),
      text_(models::protocol_text(protocol)),
      request_id_(std::move(request_id)) {}

http::OwnedFields ClientSide::all_fields() const {
  http::OwnedFields fields = fields_;
  // Each SDK looks for its own.
  fields.emplace_back(protocol_ == models::Protocol::kMessages ? "request-id" : "x-request-id",
                      request_id_);
  return fields;
}

void ClientSide::answer(std::string body) {
  exchange_.respond({.body = std::move(body), .fields = all_fields()});
}

Task<> ClientSide::refuse(const models::Failure& failure) {
  refusal_ = failure.kind;
  if (begun_) {
    std::string out;
    text_.stream_writer({})->take(failure, out);
    co_await end_with(std::move(out));
    co_return;
  }
  models::ErrorBody error = text_.write_error(failure, request_id_);
  http::Response response{.status = error.status, .body = std::move(error.body)};
  response.fields = all_fields();
  if (failure.retry_after) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*failure.retry_after).count();
    response.fields.emplace_back("Retry-After", fmt::format("{}", std::max<long>(1, seconds)));
  }
  if (tells_cost_) {
    response.fields.emplace_back("x-pons-cost-nano-usd", fmt::format("{}", cost_nano_));
    // A protocol may have no word of its own for it.
    if (failure.kind == models::Failing::kBudget)
      response.fields.emplace_back("x-pons-failure", "budget");
  }
  exchange_.respond(std::move(response));
}

Task<bool> ClientSide::begin(std::string_view first) {
  begun_ = true;
  http::Response head{.content_type = "text/event-stream", .body = std::string(first)};
  head.fields = all_fields();
  head.fields.emplace_back("Cache-Control", "no-cache");
  co_return (co_await exchange_.start(std::move(head))).has_value();
}

Task<bool> ClientSide::send(std::string_view bytes) {
  if (!begun_) co_return co_await begin(bytes);
  co_return (co_await exchange_.write(bytes)).has_value();
}

Task<bool> ClientSide::keep_alive(TimePoint now) {
  hears(now);
  std::string out;
  text_.stream_writer({})->keep_alive(out);
  co_return co_await send(out);
}

Task<> ClientSide::finish() {
  if (tells_cost_)
    ends_ = true;
  else
    (void)co_await exchange_.finish();
}

Task<> ClientSide::end_with(std::string events) {
  if (co_await send(events)) co_await finish();
}

Task<> ClientSide::close() {
  if (!std::exchange(ends_, false)) co_return;
  const std::string event = fmt::format(
      "event: pons.cost\ndata: {{\"type\":\"pons.cost\",\"cost_nano_usd\":{}}}\n\n", cost_nano_);
  if (co_await send(event)) (void)co_await exchange_.finish();
}

}  // namespace pons::gateway
