#include "answer_feed.h"

namespace pons::gateway {

AnswerFeed::AnswerFeed(linux::Loop& loop, Provider& provider, http::ClientRequest request,
                       linux::Event& news)
    : provider_(provider), news_(news), taken_(loop), reader_(loop) {
  reader_.spawn(read(std::move(request)));
}

std::optional<std::string_view> AnswerFeed::find(std::string_view field) const {
  if (!sent_) return std::nullopt;
  return sent_->answer->head().find(field);
}

std::string AnswerFeed::take() {
  taken_.set();
  return std::exchange(bytes_, {});
}

Task<> AnswerFeed::read(http::ClientRequest request) {
  auto sent = co_await provider_.send(std::move(request));
  if (!sent) {
    error_ = std::move(sent.error());
    over_ = true;
    news_.set();
    co_return;
  }
  sent_ = std::move(*sent);
  news_.set();
  while (true) {
    auto piece = co_await sent_->answer->read_body();
    if (!piece) error_ = std::move(piece.error());
    if (!piece || piece->empty()) break;
    bytes_ += *piece;
    news_.set();
    while (bytes_.size() >= kAheadMax) {
      taken_.reset();
      co_await taken_.wait(kNever);
    }
  }
  over_ = true;
  news_.set();
}

}  // namespace pons::gateway
