#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/result.h"
#include "pons/base/task.h"
#include "pons/http/client.h"
#include "pons/linux/loop.h"

namespace pons::front {

// Who a key belongs to, and what it opens.
struct Identity {
  std::string key;  // its id: fit for logs
  std::string project;
  std::vector<std::string> scopes;
  std::string session = {};  // "SESSION WORK": of a worker, for these alone; empty: anybody's
  std::optional<std::int64_t> requests_per_second = std::nullopt;  // of all keys of the project
  // "admin" opens everything; what opens agents or sessions opens a look at them ("read"), too.
  bool may(std::string_view scope) const;
};

// "X-API-KEY: KEY" or "Authorization: Bearer KEY"; empty when there is neither.
std::string_view shown_key(const http::RequestHead& request);

// The keys that open the door, by their hashes: this process never has a key before somebody shows
// it. The brain tells of every change at once.
class Keys {
 public:
  Keys(linux::Loop& loop, std::string admin_token_hash)
      : loop_(loop), admin_token_hash_(std::move(admin_token_hash)), changed_(loop) {}

  // Asks the brain for its keys and from then on for news of them; never ends.
  Task<> follow(http::Client& brain);
  // Takes what the brain said; false leaves everything as it was.
  bool accept(std::string_view body);

  // Of "Authorization: Bearer KEY" or "X-API-KEY: KEY". kDenied when there is none or it opens
  // nothing; kUnavailable when the brain has not been heard for so long that a revoked key might
  // still be here.
  Result<Identity> identify(const http::RequestHead& request) const;
  // Until the key of that id opens nothing any more. Never, for the operator's token.
  Task<> wait_until_gone(std::string key);
  // By the operator's token, in its one form: "Authorization: Bearer TOKEN".
  bool is_admin(const http::RequestHead& request) const;

 private:
  bool is_admin_token(std::string_view text) const;
  Task<Result<void>> ask(http::Client& brain);

  linux::Loop& loop_;
  std::string admin_token_hash_;
  std::map<std::string, Identity, std::less<>> by_hash_;
  std::string generation_;
  TimePoint heard_{};  // never, at first
  linux::Event changed_;
};

}  // namespace pons::front
