#pragma once

#include <deque>
#include <set>

#include "pons/session/sessions.h"

namespace pons::session {

// A message of plain text.
UserMessage message_of(std::string_view text, std::string dedupe);

class FeedFollower;

// The last events of a session that somebody follows, so that following does not read the store.
struct Sessions::Feed {
  std::deque<StoredEvent> recent;
  std::size_t recent_bytes = 0;
  std::set<FeedFollower*> followers;
};

class FeedFollower final : public Follower {
 public:
  FeedFollower(Sessions& sessions, std::string session, Sessions::From from);
  ~FeedFollower() override;
  FeedFollower(const FeedFollower&) = delete;
  FeedFollower& operator=(const FeedFollower&) = delete;

  Task<Result<News>> next(TimePoint deadline) override;
  void wake() { news_.set(); }
  bool wants_deltas() const { return with_deltas_; }
  void add_delta(std::string_view text);

 private:
  std::vector<StoredEvent> take_recent();

  Sessions& sessions_;
  std::string session_;
  Seq after_;
  bool with_deltas_;
  bool is_behind_ = true;  // what comes next is in the log only
  std::string deltas_;
  linux::Event news_;
};

}  // namespace pons::session
