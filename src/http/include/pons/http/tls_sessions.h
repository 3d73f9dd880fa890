#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "pons/base/clock.h"

struct ssl_session_st;

namespace pons::http {

// What TLS clients remember to resume: the newest session of each key, of the keys that were used
// last. A resumed session does not check the certificate again, so none gets old; a client context
// with other rules needs sessions of its own.
class TlsSessions {
 public:
  struct Limits {
    std::size_t count = 1024;
    std::size_t session_bytes = 16 * 1024;  // with a ticket of the peer's choice
    Duration age = std::chrono::hours(1);
  };
  struct SessionDeleter {
    void operator()(ssl_session_st* session) const;
  };
  using Session = std::unique_ptr<ssl_session_st, SessionDeleter>;

  explicit TlsSessions(const Clock& clock) : TlsSessions(clock, Limits{}) {}
  TlsSessions(const Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}

  void remember(const std::string& key, Session session);
  // Null when there is none. A session of TLS 1.3 is handed out once: a ticket that is used again
  // lets an observer link the connections.
  Session take(const std::string& key);
  std::size_t size() const { return by_key_.size(); }

 private:
  struct Entry {
    std::string key;
    Session session;
    TimePoint since;
  };
  void forget(std::list<Entry>::iterator entry);

  const Clock& clock_;
  Limits limits_;
  std::list<Entry> entries_;  // the newest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace pons::http
