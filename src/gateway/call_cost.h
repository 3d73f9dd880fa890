#pragma once

#include <cstdint>

#include "model_request.h"
#include "pons/base/clock.h"
#include "pons/budget/prices.h"
#include "relay.h"

namespace pons::gateway {

// What one try of a call can come to, and what it came to when nobody says so.
class CallCost {
 public:
  enum class Maker : std::uint8_t { kProvider, kScript };
  // `price` null: it is not known. All must outlive this.
  CallCost(const ModelRequest& request, std::string_view model, const budget::Price* price,
           Maker maker);

  // The most: what is reserved.
  const models::Usage& most() const { return most_; }
  // Of an answer that its provider did not count: what was seen of it.
  models::Usage seen(models::Usage usage, std::size_t output_bytes) const;
  // Of one that ended before it was whole, so long after it was asked for: what was seen, and what
  // may have been made meanwhile that nobody sees. A model may think, and an answer that does not
  // stream is seen at its end.
  models::Usage broken_off(models::Usage usage, std::size_t output_bytes, Duration after) const;

 private:
  std::int64_t prompt_most() const;

  const ModelRequest& request_;
  const budget::Price* price_;
  bool may_hide_;
  models::Usage most_;
};

}  // namespace pons::gateway
