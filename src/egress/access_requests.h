#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "access_wish.h"
#include "pons/audit/audit_log.h"
#include "pons/base/clock.h"

namespace pons::egress {

enum class AccessStatus : std::uint8_t {
  kPending,
  kAllowed,
  kDenied,
  kClosed,     // the operator has dealt with it elsewhere
  kWithdrawn,  // nobody waits for it any more
};
std::string_view to_string(AccessStatus status);
std::optional<AccessStatus> find_access_status(std::string_view text);

// One wish of one sandbox, until a person has dealt with it. Nothing here opens anything.
struct AccessRequest {
  std::string id;
  std::string sandbox;  // its id
  std::uint64_t sandbox_key = 0;
  AccessWish wish;
  std::int64_t asked_unix_ms = 0;
  std::int64_t closed_unix_ms = 0;  // 0: pending
  AccessStatus status = AccessStatus::kPending;
  std::string message = {};  // of whoever decided; may be empty
  std::string session = {};  // whose people are asked; empty: the operator alone is
  // What the brain has been told of it; nothing: that it is there, neither.
  std::optional<AccessStatus> told = std::nullopt;

  bool is_pending() const { return status == AccessStatus::kPending; }
};
Json to_json(const AccessRequest& request);

inline constexpr std::size_t kAccessRequestsMax = 256;  // of all sandboxes, closed ones included
inline constexpr std::size_t kPendingPerSandboxMax = 16;
inline constexpr std::size_t kAnswerBytesMax = 1'000;  // of what a person says to it

// In the audit log, as it is now.
void put_on_record(audit::AuditLog& audit, const AccessRequest& request);

// What sandboxes have asked for, in one file. Every change is on disk before it counts.
class AccessRequests {
 public:
  // In `directory`, as access-requests.json. A file that cannot be read is put aside, and the list
  // begins anew: nobody's network depends on it. `clock` outlives the list.
  static Result<std::unique_ptr<AccessRequests>> open(std::string directory, const Clock& clock);

  // The pending request of that sandbox for the same, if there is one.
  const AccessRequest* find_pending(std::uint64_t sandbox_key, const AccessWish& wish) const;
  // The last one of that sandbox for the same that a person has decided.
  const AccessRequest* find_decided(std::uint64_t sandbox_key, const AccessWish& wish) const;
  // The last one of that sandbox for the host and port that is pending, or denied.
  const AccessRequest* find_last(std::uint64_t sandbox_key, const Destination& host,
                                 std::uint16_t port) const;
  const AccessRequest* find(std::string_view id) const;
  // kLimit when the sandbox has asked for too much, or all have: closed ones make room, pending
  // ones do not.
  Result<AccessRequest> add(std::string sandbox, std::uint64_t sandbox_key, AccessWish wish);
  // The request, which is no longer pending. Closing it again, whatever as, changes nothing.
  Result<AccessRequest> close(std::string_view id, AccessStatus as = AccessStatus::kClosed,
                              std::string message = {});
  // Those of the sandboxes that are none of these any more. How many there were.
  Result<std::size_t> withdraw_others(const std::function<bool(std::uint64_t key)>& is_there);

  // Those whose status the brain has not been told, oldest first.
  std::vector<const AccessRequest*> untold() const;
  Result<void> tell(std::string_view id, AccessStatus status, std::string session);
  // Called when there may be something untold.
  void on_news(std::function<void()> call) { on_news_ = std::move(call); }

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
  std::function<void()> on_news_ = [] {};
};

}  // namespace pons::egress
