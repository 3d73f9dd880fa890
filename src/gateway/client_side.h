#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pons/base/task.h"
#include "pons/http/exchange.h"
#include "pons/models/protocol.h"

namespace pons::gateway {

// The client's end of one call: answers in its own protocol, and begins no sooner than there is
// something to say.
class ClientSide {
 public:
  ClientSide(http::Exchange& exchange, models::Protocol protocol, std::string request_id);

  http::Exchange& exchange() { return exchange_; }
  const std::string& request_id() const { return request_id_; }
  models::Protocol protocol() const { return protocol_; }

  // Fields that go with the answer, from now until it begins.
  void set_fields(http::OwnedFields fields) { fields_ = std::move(fields); }

  void answer(std::string body);
  // As an answer of its own, or within the stream that has begun.
  Task<> refuse(const models::Failure& failure);

  // Streams. False: the client is gone.
  Task<bool> send(std::string_view bytes);
  Task<bool> keep_alive();
  Task<> finish();
  bool has_begun() const { return begun_; }

 private:
  http::OwnedFields all_fields() const;
  Task<bool> begin(std::string_view first);

  http::Exchange& exchange_;
  models::Protocol protocol_;
  const models::ProtocolText& text_;
  std::string request_id_;
  http::OwnedFields fields_;
  bool begun_ = false;
};

}  // namespace pons::gateway
