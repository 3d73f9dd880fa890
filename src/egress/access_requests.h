#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "access_wish.h"
#include "pons/base/clock.h"

namespace pons::egress {

// One wish of one sandbox, until a person has dealt with it. Nothing here opens anything.
struct AccessRequest {
  std::string id;
  std::string sandbox;  // its id
  std::uint64_t sandbox_key = 0;
  AccessWish wish;
  std::int64_t asked_unix_ms = 0;
  std::int64_t closed_unix_ms = 0;  // 0: pending

  bool is_pending() const { return closed_unix_ms == 0; }
};
Json to_json(const AccessRequest& request);

inline constexpr std::size_t kAccessRequestsMax = 256;  // of all sandboxes, closed ones included
inline constexpr std::size_t kPendingPerSandboxMax = 16;

// What sandboxes have asked for, in one file. Every change is on disk before it counts.
class AccessRequests {
 public:
  // In `directory`, as access-requests.json. A file that cannot be read is put aside, and the list
  // begins anew: nobody's network depends on it. `clock` outlives the list.
  static Result<std::unique_ptr<AccessRequests>> open(std::string directory, const Clock& clock);

  // The pending request of that sandbox for the same, if there is one.
  const AccessRequest* find_pending(std::uint64_t sandbox_key, const AccessWish& wish) const;
  // kLimit when the sandbox has asked for too much, or all have: closed ones make room, pending
  // ones do not.
  Result<AccessRequest> add(std::string sandbox, std::uint64_t sandbox_key, AccessWish wish);
  // The request. Closing it again changes nothing.
  Result<AccessRequest> close(std::string_view id);

  const std::vector<AccessRequest>& all() const { return all_; }  // oldest first
  std::size_t pending() const;

 private:
  AccessRequests(std::string directory, const Clock& clock);
  Result<void> read();
  Result<void> keep(std::vector<AccessRequest> all);
  std::int64_t now_unix_ms() const;

  std::string directory_;
  std::string file_;
  const Clock& clock_;
  std::vector<AccessRequest> all_;
};

}  // namespace pons::egress
