#pragma once

#include <string>

#include "access_log.h"
#include "pons/base/clock.h"
#include "pons/http/exchange.h"

namespace pons::front {

// An exchange of the public door: its answer carries an id, and when it is over, one line of log
// says who asked for what and how it ended. The line has no query, no header, and of the
// path only its words: secrets stand there. Who is refused for a while is told when to come again.
// What a program in a sandbox answers, which is passed on as it comes, stays as it is.
class RecordedExchange final : public http::Exchange {
 public:
  RecordedExchange(http::Exchange& exchange, AccessLog& log);
  RecordedExchange(const RecordedExchange&) = delete;
  RecordedExchange& operator=(const RecordedExchange&) = delete;
  ~RecordedExchange() override;

  const std::string& id() const { return line_.id; }
  void set_key(std::string key) { line_.key = std::move(key); }
  // It is for a program in a sandbox: what is not said at once is that program's answer.
  void set_for_program() { for_program_ = true; }
  // Whose page may read the answer.
  void set_origin(std::string origin) { origin_ = std::move(origin); }

  const http::RequestHead& request() const override { return exchange_.request(); }
  const http::Peer& peer() const override { return exchange_.peer(); }
  linux::Loop& loop() override { return exchange_.loop(); }
  void set_route(std::string_view route) override { exchange_.set_route(route); }
  Task<Result<std::string_view>> read_body() override { return exchange_.read_body(); }
  const http::OwnedFields& trailers() const override { return exchange_.trailers(); }
  void respond(http::Response response) override;
  Task<Result<void>> start(http::Response head) override;
  Task<Result<void>> write(std::string_view bytes) override;
  Task<Result<void>> finish(std::string_view last) override;
  void set_trailers(http::OwnedFields fields) override {
    exchange_.set_trailers(std::move(fields));
  }
  void abort() override;
  Task<bool> wait_for_hang_up(TimePoint deadline) override {
    return exchange_.wait_for_hang_up(deadline);
  }
  Task<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(http::WebSocketLimits limits,
                                                                  std::string subprotocol) override;

 private:
  http::Response named(http::Response response);

  http::Exchange& exchange_;
  AccessLog& log_;
  std::string origin_;  // empty: nobody's
  bool for_program_ = false;
  LoggedRequest line_;  // the request's own text may be gone at the end
  TimePoint begun_;
};

}  // namespace pons::front
