#include "form_parts.h"

namespace pons::e2b {

namespace {

using State = MultipartParser::Step::State;

}  // namespace

class FormParts::Data final : public sandbox::ByteSource {
 public:
  explicit Data(FormParts& parts) : parts_(parts) {}
  Task<Result<std::string>> next() override { return parts_.next_data(); }

 private:
  FormParts& parts_;
};

Task<Result<State>> FormParts::advance() {
  for (;;) {
    const auto step = parser_.next(buffer_);
    if (step.state == State::kRefused)
      co_return make_error(ErrorCode::kInvalid, "read form", step.reason);
    data_ = step.data;
    buffer_.erase(0, step.consumed);
    if (step.state != State::kNeedMore) co_return step.state;
    if (step.consumed > 0) continue;
    CO_TRY(const auto piece, co_await body_.next());
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

std::unique_ptr<sandbox::ByteSource> FormParts::open_data() {
  return std::make_unique<Data>(*this);
}

}  // namespace pons::e2b
