#pragma once

#include <string>

#include "pons/http/exchange.h"

namespace pons::egress {

// A request of the brain as the host is to see it: its own method, target and fields, and the body
// of the one it came in.
class CarriedExchange final : public http::Exchange {
 public:
  struct Request {
    std::string method;
    std::string target;
    std::string host;
    http::OwnedFields fields;
  };
  CarriedExchange(http::Exchange& outer, Request request);
  CarriedExchange(const CarriedExchange&) = delete;
  CarriedExchange& operator=(const CarriedExchange&) = delete;

  const http::RequestHead& request() const override { return head_; }
  const http::Peer& peer() const override { return outer_.peer(); }
  linux::Loop& loop() override { return outer_.loop(); }
  Task<Result<std::string_view>> read_body() override { return outer_.read_body(); }
  const http::OwnedFields& trailers() const override { return outer_.trailers(); }
  void respond(http::Response response) override {
    begun_ = true;
    outer_.respond(std::move(response));
  }
  Task<Result<void>> start(http::Response head) override;
  bool has_begun() const { return begun_; }
  Task<Result<void>> write(std::string_view bytes) override { return outer_.write(bytes); }
  Task<Result<void>> finish(std::string_view last) override { return outer_.finish(last); }
  void set_trailers(http::OwnedFields) override {}
  void abort() override { outer_.abort(); }
  Task<bool> wait_for_hang_up(TimePoint deadline) override {
    return outer_.wait_for_hang_up(deadline);
  }
  Task<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(http::WebSocketLimits limits,
                                                                  std::string word) override {
    return outer_.accept_websocket(limits, std::move(word));
  }

 private:
  http::Exchange& outer_;
  Request request_;  // what the head looks at
  http::RequestHead head_;
  bool begun_ = false;
};

}  // namespace pons::egress
