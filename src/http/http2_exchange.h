#pragma once

#include <memory>

#include "http2_session.h"
#include "pons/http/exchange.h"

namespace pons::http {

// One request of an HTTP/2 connection, as its handler sees it.
class Http2Exchange final : public Exchange {
 public:
  Http2Exchange(linux::Loop& loop, Http2Session& session, std::shared_ptr<Http2Stream> stream,
                const Peer& peer, const Http2Limits& limits);

  // Reads the head; a refusal is what to answer without asking the handler.
  Refusal settle(std::string_view scheme);
  // There is an answer afterwards, whatever the handler did.
  void complete();

  const RequestHead& request() const override { return head_; }
  const Peer& peer() const override { return peer_; }
  linux::Loop& loop() override { return loop_; }
  Task<Result<std::string_view>> read_body() override;
  const OwnedFields& trailers() const override { return stream_->trailers(); }
  void respond(Response response) override;
  Task<Result<void>> start(Response head) override;
  Task<Result<void>> write(std::string_view bytes) override;
  Task<Result<void>> finish(std::string_view last) override;
  void set_trailers(OwnedFields trailers) override { trailers_to_send_ = std::move(trailers); }
  void abort() override;
  Task<bool> wait_for_hang_up(TimePoint deadline) override;
  Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(WebSocketLimits limits,
                                                            std::string subprotocol) override;

 private:
  enum class Reply : std::uint8_t { kNone, kStreaming, kFinished, kAborted };

  bool has_body(int status) const;
  Result<void> submit_head(const Response& response, std::optional<std::uint64_t> length);
  Error refuse_body() const;

  linux::Loop& loop_;
  Http2Session& session_;
  const std::shared_ptr<Http2Stream> stream_;
  const Peer& peer_;
  const Http2Limits& limits_;
  RequestHead head_;  // points into the stream's block
  std::uint64_t body_taken_ = 0;
  bool continue_wanted_ = false;

  Reply reply_ = Reply::kNone;
  bool sends_body_ = false;
  std::optional<std::uint64_t> body_left_;  // of an answer whose length was announced
  OwnedFields trailers_to_send_;
};

}  // namespace pons::http
