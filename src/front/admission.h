#pragma once

#include <string_view>

#include "keys.h"
#include "pons/http/exchange.h"
#include "rate_limit.h"

namespace pons::front {

// Who is let in: somebody with a good key that opens what is asked for, and who does not ask too
// often.
class Admission {
 public:
  Admission(const linux::Loop& loop, Keys& keys) : loop_(loop), keys_(keys) {}

  // kDenied: there is no good key. kConflict: it is one, but not for this. kLimit: too often.
  // kUnavailable: keys cannot be checked at this moment.
  Result<Identity> admit(const http::RequestHead& request, std::string_view scope);

  // Until the key of that id opens nothing any more.
  Task<> wait_until_gone(std::string key) { return keys_.wait_until_gone(std::move(key)); }

 private:
  // More than a burst of a hundred SDKs needs, and less than what keeps this loop from others.
  static constexpr std::uint32_t kRequestsPerSecondOfKey = 2'000;

  const linux::Loop& loop_;
  Keys& keys_;
  RateLimit keys_rate_;
  RateLimit projects_rate_;
};

// What those are told who are not let in, on paths of our own.
http::Response refusal_of(const Error& error);

}  // namespace pons::front
