#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pons/base/clock.h"
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
  // As an answer of its own, or within a stream that has only been kept alive.
  Task<> refuse(const models::Failure& failure);

  // From now on the end of the answer also says what it cost: a stream in an event of its own
  // behind all others, a refusal in a field.
  void tell_cost() { tells_cost_ = true; }
  void add_cost(std::int64_t nano_dollars) { cost_nano_ += nano_dollars; }
  std::int64_t cost_nano() const { return cost_nano_; }
  // Why it was refused, if it was.
  const std::optional<models::Failing>& refusal() const { return refusal_; }

  // Streams. False: the client is gone.
  Task<bool> send(std::string_view bytes);
  // A word for a client that waits; the next is due some seconds later.
  Task<bool> keep_alive(TimePoint now);
  TimePoint keep_alive_at() const { return keep_alive_at_; }
  void hears(TimePoint now) { keep_alive_at_ = now + kKeepAlive; }  // of something else
  Task<> finish();
  // With these as the last of the stream, as far as the client is there.
  Task<> end_with(std::string events);
  // When all is settled: finishes a stream whose end waited for its cost.
  Task<> close();
  bool has_begun() const { return begun_; }

 private:
  static constexpr Duration kKeepAlive = std::chrono::seconds(10);

  http::OwnedFields all_fields() const;
  Task<bool> begin(std::string_view first);

  http::Exchange& exchange_;
  models::Protocol protocol_;
  const models::ProtocolText& text_;
  std::string request_id_;
  http::OwnedFields fields_;
  TimePoint keep_alive_at_ = TimePoint::max();
  bool begun_ = false;
  bool tells_cost_ = false;
  bool ends_ = false;  // but for its cost
  std::int64_t cost_nano_ = 0;
  std::optional<models::Failing> refusal_;
};

}  // namespace pons::gateway
