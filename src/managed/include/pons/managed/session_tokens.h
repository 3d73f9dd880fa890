#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pons/base/clock.h"
#include "pons/base/secret.h"
#include "pons/base/task.h"
#include "pons/store/store.h"

namespace pons::managed {

// What a worker may do is one session's: it shows a token for that, and for nothing else.
struct SessionToken {
  std::string id;
  std::string project;
  std::string session;
  std::string work;
  std::string hash;  // SHA-256 of what stands behind the last '_'
  std::int64_t expires_ms = 0;
};

// Where tokens are shown: whoever looks at callers' keys.
class TokenDoor {
 public:
  virtual ~TokenDoor() = default;
  virtual void open(const SessionToken& token) = 0;
  virtual void close(std::string_view id) = 0;
  // Those are open, and no other.
  virtual void replace(const std::vector<SessionToken>& good) = 0;
  // Doors of other processes that share the store hear that it has changed.
  virtual void tell_others() = 0;
  // Until the door has heard of what was opened and closed, or a short time has passed.
  virtual Task<> wait_until_heard() = 0;
};

// Tokens are kept as hashes, and last as long as their work is reported on.
class SessionTokens {
 public:
  SessionTokens(store::Store& store, const Clock& clock, TokenDoor& door)
      : store_(store), clock_(clock), door_(door) {}

  // The text is known to whoever gets it, and nowhere else.
  Task<Result<Secret>> create(std::string project, std::string session, std::string work);
  // The work goes on: they last at least that much longer.
  Task<Result<void>> extend(std::string work, Duration time);
  // The work is over.
  Task<Result<void>> end(std::string work);
  // Tells the door of those that other processes have made and ended, and ends those whose time is
  // over.
  Task<Result<void>> keep_up();

 private:
  std::int64_t now_ms() const;
  Task<Result<std::vector<SessionToken>>> find(std::string condition, store::Value value);

  store::Store& store_;
  const Clock& clock_;
  TokenDoor& door_;
  std::uint64_t changes_ = 0;  // that the door has been told of
};

}  // namespace pons::managed
