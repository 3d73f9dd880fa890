#include "feed.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "pons/base/json.h"

namespace pons::session {

namespace {

constexpr std::size_t kRecentEvents = 64;
constexpr std::size_t kRecentBytes = 1 << 20;
// Of a follower that does not keep up: it gets the whole answer with its event.
constexpr std::size_t kDeltaBytesMax = 256 << 10;
// So many are held for a follower that does not read; events may be large.
constexpr std::size_t kHeldEvents = 8;

}  // namespace

UserMessage message_of(std::string_view text, std::string dedupe) {
  return {.content = dump_json(Json::array({{{"type", "text"}, {"text", text}}})),
          .dedupe = std::move(dedupe)};
}

FeedFollower::FeedFollower(Sessions& sessions, std::string session, Sessions::From from)
    : sessions_(sessions),
      session_(std::move(session)),
      after_(from.after),
      with_deltas_(from.with_deltas),
      with_thinking_(from.with_thinking),
      news_(sessions.world_.loop) {
  auto& feed = sessions_.feeds_[session_];
  if (!feed) feed = std::make_unique<Sessions::Feed>();
  feed->followers.insert(this);
  news_.set();  // the log may have something already
}

FeedFollower::~FeedFollower() {
  const auto feed = sessions_.feeds_.find(session_);
  feed->second->followers.erase(this);
  if (feed->second->followers.empty()) sessions_.feeds_.erase(feed);
}

void FeedFollower::add_delta(Seq asked, std::string_view text) {
  if (!with_deltas_) return;
  if (deltas_of_ != asked) {
    deltas_.clear();
    deltas_of_ = asked;
    is_cut_ = false;
  }
  is_cut_ |= deltas_.size() + text.size() > kDeltaBytesMax;
  if (is_cut_) return;
  deltas_ += text;
  news_.set();
}

// Something may be in the log that is not at hand.
bool FeedFollower::is_behind() const {
  const Sessions::Feed& feed = *sessions_.feeds_.at(session_);
  return !has_read_log_ || feed.last > after_;
}

std::vector<StoredEvent> FeedFollower::take_recent() const {
  const auto& recent = sessions_.feeds_.at(session_)->recent;
  std::vector<StoredEvent> events;
  if (recent.empty() || recent.front().stored.seq > after_ + 1) return events;
  for (const auto& [stored, bytes] : recent)
    if (stored.seq > after_ && events.size() < kHeldEvents) events.push_back(stored);
  return events;
}

Task<Result<News>> FeedFollower::next(TimePoint deadline) {
  News news;
  const bool is_new = co_await news_.wait(deadline) == linux::Wait::kReady;
  if (is_over_)
    co_return make_error(ErrorCode::kNotFound, "follow session", "the session is deleted");
  // Another process may have the session: what happens there nobody tells.
  if (!is_new && sessions_.loaded_.contains(session_)) co_return news;
  if (!is_new) has_read_log_ = false;
  news_.reset();
  news.deltas = std::exchange(deltas_, {});
  news.deltas_of = deltas_of_;
  news.thinks_of = std::exchange(thinks_of_, 0);
  news.events = take_recent();
  if (news.events.empty() && is_behind()) {
    CO_TRY(news.events, co_await sessions_.world_.log.read(session_, after_, kHeldEvents));
    has_read_log_ = news.events.empty();
  }
  if (!news.events.empty()) after_ = news.events.back().seq;
  if (is_behind()) news_.set();
  co_return news;
}

std::unique_ptr<Follower> Sessions::follow(std::string session, From from) {
  return std::make_unique<FeedFollower>(*this, std::move(session), from);
}

void Sessions::on_events(const std::string& session, const std::vector<StoredEvent>& events) {
  if (observer_) observer_(session, events);
  const auto found = feeds_.find(session);
  if (found == feeds_.end()) return;
  Feed& feed = *found->second;
  // Another process had the session meanwhile: what happened there is in the log only.
  if (events.front().seq != feed.last + 1) {
    feed.recent.clear();
    feed.recent_bytes = 0;
  }
  for (const StoredEvent& stored : events) {
    feed.recent.push_back({stored, write_body(stored.event).size()});
    feed.recent_bytes += feed.recent.back().bytes;
    feed.last = stored.seq;
  }
  while (feed.recent.size() > kRecentEvents || feed.recent_bytes > kRecentBytes) {
    feed.recent_bytes -= feed.recent.front().bytes;
    feed.recent.pop_front();
  }
  for (FeedFollower* follower : feed.followers) follower->wake();
}

void Sessions::on_delta(const std::string& session, Seq asked, std::string_view text) {
  if (const auto found = feeds_.find(session); found != feeds_.end())
    for (FeedFollower* follower : found->second->followers) follower->add_delta(asked, text);
}

void Sessions::on_thinking(const std::string& session, Seq asked) {
  if (const auto found = feeds_.find(session); found != feeds_.end())
    for (FeedFollower* follower : found->second->followers) follower->note_thinking(asked);
}

bool Sessions::wants_deltas(const std::string& session) const {
  const auto found = feeds_.find(session);
  return found != feeds_.end() &&
         std::ranges::any_of(found->second->followers, &FeedFollower::wants_deltas);
}

}  // namespace pons::session
