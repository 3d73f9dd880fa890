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
  struct Recent {
    StoredEvent stored;
    std::size_t bytes = 0;
  };
  std::deque<Recent> recent;
  std::size_t recent_bytes = 0;
  Seq last = 0;  // that was ever there
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
  // Something may be in the log that nobody here has stored.
  void look_again() {
    has_read_log_ = false;
    wake();
  }
  // The session is deleted.
  void end() {
    is_over_ = true;
    wake();
  }
  Seq after() const { return after_; }
  bool wants_deltas() const { return with_deltas_; }
  void add_delta(Seq asked, std::string_view text);
  void note_thinking(Seq asked) {
    if (!with_thinking_) return;
    thinks_of_ = asked;
    wake();
  }

 private:
  bool is_behind() const;
  std::vector<StoredEvent> take_recent() const;

  Sessions& sessions_;
  std::string session_;
  Seq after_;
  bool has_read_log_ = false;  // up to its end, once
  bool is_over_ = false;
  bool with_deltas_;
  bool with_thinking_;
  Seq thinks_of_ = 0;
  std::string deltas_;
  Seq deltas_of_ = 0;    // the question that they answer
  bool is_cut_ = false;  // more came than is held: the rest comes with the answer
  linux::Event news_;
};

}  // namespace pons::session
