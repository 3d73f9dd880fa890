#pragma once

#include <list>
#include <memory>
#include <string>

#include "kept_head.h"
#include "pons/http/chunked.h"
#include "pons/http/exchange.h"
#include "pons/http/server.h"
#include "pons/http/transport.h"
#include "read_buffer.h"

namespace pons::http {

// One HTTP/1.1 connection of a Server: reads a head, lets the handler answer, and again. It is
// itself the Exchange of the request at hand.
//
// Memory: bytes are in a buffer only between their arrival and their being taken; the head (the
// request's views point there) is kept apart. A connection that waits, for its next request or
// within one, holds no buffer.
class Http1Connection final : public Exchange {
 public:
  Http1Connection(Server& server, std::unique_ptr<Transport> transport, Peer peer);
  ~Http1Connection() override;

  Task<> run();
  // Ends the connection if it waits for its next request.
  void close_if_idle();

  const RequestHead& request() const override { return head_; }
  const Peer& peer() const override { return peer_; }
  linux::Loop& loop() override { return server_.loop_; }
  void set_route(std::string_view route) override { route_ = route; }
  Task<Result<std::string_view>> read_body() override;
  const OwnedFields& trailers() const override { return trailers_; }
  void respond(Response response) override;
  Task<Result<void>> start(Response head) override;
  Task<Result<void>> write(std::string_view bytes) override;
  Task<Result<void>> finish(std::string_view last) override;
  void abort() override { reply_ = Reply::kAborted; }
  Task<bool> wait_for_hang_up(TimePoint deadline) override;
  Task<Result<std::unique_ptr<WebSocket>>> accept_websocket(WebSocketLimits limits,
                                                            std::string subprotocol) override;

 private:
  enum class Reply : std::uint8_t { kNone, kComplete, kStreaming, kFinished, kAborted, kUpgraded };

  Task<bool> wait_for_request();  // true: its first bytes are in the buffer
  Task<bool> read_head();
  Task<> handle();
  Task<bool> send_continue();
  Task<bool> flush();
  Task<bool> skip_rest_of_body();
  void cut_off();
  Task<Result<std::size_t>> fill(TimePoint deadline);
  Result<std::string_view> take_body_piece();
  Error refuse_body();  // for its size
  void read_trailers();
  void begin_exchange(std::size_t head_bytes);
  void append_piece(std::string_view bytes);
  void append_head(const Response& response, std::optional<std::uint64_t> length);
  void refuse(int status, std::string_view reason);
  std::size_t unread_max() const { return server_.limits_.head.bytes + kBodyBytes; }
  bool is_turn_over(std::size_t bytes);
  void count_exchange();

  static constexpr std::size_t kBodyBytes = 16 * 1024;

  Server& server_;
  std::unique_ptr<Transport> transport_;
  Peer peer_;

  ReadBuffer input_;
  bool drained_ = false;  // the last read took all the socket had; more will raise an event

  RequestHead head_;
  KeptHead kept_head_;
  std::size_t scanned_ = 0;
  ChunkedDecoder chunks_;
  std::string trailer_lines_;
  OwnedFields trailers_;
  std::uint64_t body_left_ = 0;       // BodyFraming::kLength
  std::uint64_t body_taken_ = 0;      // against the limit
  TimePoint body_deadline_ = kNever;  // of all of it, beside the limit between two pieces
  Duration body_idle_time_{};
  bool body_done_ = true;
  bool body_broken_ = false;  // framing is in doubt: nothing after this can be trusted
  bool continue_wanted_ = false;
  bool sending_continue_ = false;

  std::size_t turn_bytes_ = 0;  // moved since everyone else last had a turn

  bool chunked_answer_ = false;
  Reply reply_ = Reply::kNone;
  std::string_view route_;
  int status_ = 0;        // of the answer that was begun last
  bool streams_ = false;  // counted as one that does
  bool close_after_ = false;
  std::string output_;
  std::string output_body_;

  std::list<Http1Connection*>::iterator idle_place_;
  bool idle_ = false;
};

}  // namespace pons::http
