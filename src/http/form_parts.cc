#include "pons/http/form_parts.h"

#include <memory>

#include <fmt/format.h>

namespace pons::http {

namespace {

using State = MultipartParser::Step::State;

constexpr std::size_t kPieceBytes = 256 * 1024;

Task<Result<std::string>> next_piece(Exchange& exchange, std::string_view& rest) {
  if (rest.empty()) {
    CO_TRY(rest, co_await exchange.read_body());
  }
  std::string piece(rest.substr(0, kPieceBytes));
  rest.remove_prefix(piece.size());
  co_return piece;
}

}  // namespace

BodyPieces pieces_of(Exchange& exchange) {
  return [&exchange, rest = std::make_shared<std::string_view>()] {
    return next_piece(exchange, *rest);
  };
}

Task<Result<State>> FormParts::advance() {
  for (;;) {
    const auto step = parser_.next(buffer_);
    if (step.state == State::kRefused)
      co_return make_error(ErrorCode::kInvalid, "read form", step.reason);
    data_ = step.data;
    buffer_.erase(0, step.consumed);
    if (step.state != State::kNeedMore) co_return step.state;
    if (step.consumed > 0) continue;
    CO_TRY(const auto piece, co_await body_());
    if (piece.empty())
      co_return make_error(ErrorCode::kInvalid, "read form", "the form ends before its end");
    buffer_ += piece;
  }
}

Task<Result<std::optional<PartHead>>> FormParts::next_part() {
  for (;;) {
    CO_TRY(const auto state, co_await advance());
    if (state == State::kPart) in_part_ = true;
    if (state == State::kPart) co_return std::optional(parser_.head());
    if (state == State::kEnd) co_return std::optional<PartHead>();
  }
}

Task<Result<std::string>> FormParts::next_data() {
  if (!in_part_) co_return std::string();
  CO_TRY(const auto state, co_await advance());
  if (state == State::kData) co_return std::move(data_);
  in_part_ = false;
  co_return std::string();
}

Task<Result<std::string>> FormParts::read_text(std::size_t bytes_max) {
  std::string text;
  for (;;) {
    CO_TRY(const auto piece, co_await next_data());
    if (piece.empty()) co_return text;
    if (text.size() + piece.size() > bytes_max)
      co_return make_error(ErrorCode::kInvalid, "read form",
                           fmt::format("a part is longer than {} bytes", bytes_max));
    text += piece;
  }
}

}  // namespace pons::http
