#include "stream_input.h"

#include <nlohmann/json.hpp>

#include "connect.h"
#include "failure.h"
#include "message.h"
#include "processes.h"
#include "rpc_stream.h"

namespace pons::e2b {

namespace {

constexpr std::size_t kMessageBytesMax = 4U << 20;

// The messages of the body, one by one.
class Messages {
 public:
  explicit Messages(http::Exchange& exchange) : exchange_(exchange) {}

  // Nothing at the end.
  Task<Result<std::optional<Json>>> next() {
    for (;;) {
      const auto parse = parse_envelope(buffer_, kMessageBytesMax);
      if (parse.state == EnvelopeParse::State::kRefused)
        co_return make_error(ErrorCode::kInvalid, "read message", parse.reason);
      if (parse.state == EnvelopeParse::State::kDone) {
        CO_TRY(Json message, parse_json(parse.payload));
        buffer_.erase(0, parse.consumed);
        co_return std::optional<Json>(std::move(message));
      }
      CO_TRY(const auto piece, co_await exchange_.read_body());
      if (piece.empty() && buffer_.empty()) co_return std::optional<Json>();
      if (piece.empty())
        co_return make_error(ErrorCode::kInvalid, "read message", "the body ends within a message");
      buffer_ += piece;
    }
  }

 private:
  http::Exchange& exchange_;
  std::string buffer_;
};

Task<Result<void>> pass_input_on(Call& call) {
  Messages messages(call.exchange);
  Json request = Json::object();
  for (;;) {
    CO_TRY(const auto message, co_await messages.next());
    if (!message) co_return {};
    if (const Json* start = find_field(*message, "start")) {
      if (const Json* process = find_field(*start, "process")) request["process"] = *process;
    } else if (const Json* data = find_field(*message, "data")) {
      if (const Json* input = find_field(*data, "input")) {
        request["input"] = *input;
        CO_TRY_VOID(co_await send_input(call, request));
      }
    }
  }
}

}  // namespace

Task<> answer_stream_input(Call& call) {
  RpcStream answer(call.exchange);
  auto done = co_await pass_input_on(call);
  if (done) done = co_await answer.send("{}");
  if (done) {
    co_await answer.end();
  } else if (is_gone(done.error())) {
    respond_gone(call.exchange, call.id());
  } else {
    co_await answer.end(std::move(done).error());
  }
}

}  // namespace pons::e2b
